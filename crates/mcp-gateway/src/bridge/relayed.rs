//! Failures of calls that a federation relays to the server without this bridge.

use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{self, Id, Message};
use thruway_mcp::modern::ResultWriter;
use thruway_mcp::schema::methods;
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::Answer;
use thruway_mcp_server::backend::Status;
use thruway_message::StatusCode;

use super::answer::{self, AnswerRevisions};
use super::bridge_core::BridgeCore;

/// Returns the message for the client and its status, if the response of the server to a relayed call is unusual.
/// `status` and `content` are the status and the body of this response, and `id` is the id of the call. The client gets
/// the same message as without a relay.
pub(crate) fn answer_to_failure(
    bridge: &BridgeCore,
    results: &ResultWriter,
    status: StatusCode,
    content: &[u8],
    id: &Id<'_>,
) -> (Vec<u8>, Status) {
    let outcome = outcome(status, content, id);
    bridge.note_outcome(&outcome);
    let revisions = AnswerRevisions { client: Revision::LATEST, server: bridge.era_server.revision };
    let (member, method) = (bridge.member_name(), methods::TOOLS_CALL);
    let mut output = Vec::new();
    let status = answer::write(&mut output, id, member, revisions, method, results, outcome);
    (output, status)
}

/// Returns the outcome of a call with the id `id`.
fn outcome(status: StatusCode, content: &[u8], id: &Id<'_>) -> Result<Answer, McpClientError> {
    let Ok(Message::Response(response)) = json_rpc::parse(content) else {
        return Err(McpClientError::Status(status));
    };
    let is_of_call = response.id.as_ref() == Some(id);
    // Without an id, the server rejected the request before it read the id.
    if is_of_call || (response.id.is_none() && !is_passing(status)) {
        return response.outcome.map(RawValue::to_owned).map_err(McpClientError::Server);
    }
    Err(McpClientError::Status(status))
}

/// Returns `true` if the status indicates a temporary failure of the server or of a proxy.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 502..=504)
}
