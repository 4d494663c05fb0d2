//! Waiting for messages on streams.

use serde_json::Value;
use thruway_mcp_sdk::LocalClient;

/// The next message, which must come.
pub(crate) async fn next(client: &mut LocalClient) -> Value {
    client.receive().await.expect("the server has closed the connection")
}

/// The response to request `id`; what comes before is passed over.
pub(crate) async fn response_to(client: &mut LocalClient, id: impl Into<Value>) -> Value {
    let id = id.into();
    loop {
        let message = next(client).await;
        if message["id"] == id && message.get("method").is_none() {
            return message;
        }
    }
}
