//! Requests about tasks with the own ids of the server. They do not need the session that began the task.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::to_raw_value;
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, empty_object};
use thruway_mcp_server::backend::Caller;

use super::json::{RELATED_ID, TASK_ID, replaced};
use crate::bridge::bridge_core::BridgeCore;

/// Returns the server's own id of the legacy task with the client's id `id`. Returns `None` if the task ends with
/// this process, because its server is a child process.
pub(crate) fn own_task_id(bridge: &Arc<BridgeCore>, id: &str) -> Option<String> {
    bridge.era_servers().find_map(|era_server| era_server.upstreams.tasks.own_id(id))
}

/// Asks the server about a legacy task with its own id. The answer contains the client's id of the task.
///
/// # Errors
/// The server does not know the task, or cannot be reached.
pub(crate) async fn ask_about_own_task(
    bridge: &Arc<BridgeCore>,
    caller: &Caller,
    method: &'static str,
    own_id: &str,
    id: &str,
) -> Result<Answer, McpClientError> {
    let credential = bridge.credential_of(caller)?;
    let upstream = bridge.server_of_session().upstreams.shared(credential.as_ref()).await?;
    let call = ForwardedCall {
        method: method.into(),
        name: Some(own_id.into()),
        params: to_raw_value(&json!({"taskId": own_id})).unwrap_or_else(|_| empty_object()),
        has_meta: false,
        param_headers: None,
        sender: None,
        round: Vec::new(),
        requester: None,
        progress: None,
        progress_token: None,
        trace: None,
        is_of_process: true,
    };
    let answer = upstream.client.forward(&call).await?;
    let answer = replaced(&answer, TASK_ID, id).unwrap_or(answer);
    Ok(replaced(&answer, RELATED_ID, id).unwrap_or(answer))
}
