//! The values that the gateway must translate in relayed calls and in their responses: `requestState` values, and
//! failures of the member. The results are the same as on the slow path, so a call can begin on one path and continue
//! on the other.

use std::sync::Arc;

use thruway_mcp::federated::ScannedCall;
use thruway_mcp::json_rpc::{self, Id, Message};
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;
use thruway_mcp_server::backend::{Caller, ServerCore, Status};
use thruway_message::StatusCode;

use crate::bridge::{BridgeCore, CallerSeal, answer_to_failure};

/// Translates the values of one member for one caller.
pub(super) struct MemberAnswers {
    server: Arc<ServerCore>,
    bridge: Arc<BridgeCore>,
    caller: Caller,
}

impl MemberAnswers {
    pub(super) fn new(server: &Arc<ServerCore>, bridge: &Arc<BridgeCore>, caller: &Caller) -> Self {
        Self { server: server.clone(), bridge: bridge.clone(), caller: caller.clone() }
    }

    /// Returns the body for the member, with the member's own name of the tool and its own state. Returns `None` if
    /// the state has no valid signature.
    pub(super) fn content_for_member(&self, call: &ScannedCall<'_>, own_name: &str) -> Option<Vec<u8>> {
        let content = call.with_name(own_name)?;
        let Some(signed) = call.request_state() else { return Some(content) };
        let state =
            with_params(&content, |params| self.seal().open_state(signed, methods::TOOLS_CALL, params).ok())?;
        call.with_name_and_state(own_name, &state)
    }

    /// Signs the state in the response to `request`, which is the body for the member.
    pub(super) fn signed(&self, state: String, request: &[u8]) -> Option<String> {
        with_params(request, |params| self.seal().seal_state(state, methods::TOOLS_CALL, params).ok())
    }

    /// Returns the message for the client and its status, if the response of the member has no usable body or the
    /// status of an error.
    pub(super) fn answer_to_failure(
        &self,
        status: StatusCode,
        content: &[u8],
        id: &Id<'_>,
    ) -> (Vec<u8>, Status) {
        answer_to_failure(&self.bridge, self.server.results(), status, content, id)
    }

    fn seal(&self) -> CallerSeal {
        CallerSeal::new(&self.bridge, self.server.state_key(), &self.caller)
    }
}

/// Calls `read` with the parameters of a request.
fn with_params<T>(request: &[u8], read: impl FnOnce(&Params<'_>) -> Option<T>) -> Option<T> {
    let Ok(Message::Request(request)) = json_rpc::parse(request) else { return None };
    read(&Params::parse(request.params).ok()?)
}
