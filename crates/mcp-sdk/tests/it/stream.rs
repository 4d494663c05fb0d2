//! Reads messages from streams.

use serde_json::Value;
use thruway_mcp_sdk::LocalClient;

/// Returns the next message. Panics at the end of the stream.
pub(crate) async fn next(client: &mut LocalClient) -> Value {
    client.receive().await.expect("the server has closed the connection")
}
