//! Waiting for messages on streams.

use serde_json::Value;
use thruway_mcp_sdk::LocalClient;

/// The next message, which must come.
pub(crate) async fn next(client: &mut LocalClient) -> Value {
    client.receive().await.expect("the server has closed the connection")
}
