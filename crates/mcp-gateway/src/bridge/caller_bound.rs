//! Protects two kinds of values that a modern server sends: task ids and `requestState` values. Only the
//! caller that received such a value can use it.
//!
//! The server sees the bridge as a single client, so the server cannot distinguish the callers. Therefore,
//! the bridge signs each value for the caller that receives it. When a caller sends the value back, the
//! bridge verifies the signature. All callers without a token count as the same caller. The bridge does not
//! store these values. If two bridges have the same
//! [`state_key`](thruway_mcp_server::McpServerOptions::state_key), each of them accepts values that the other
//! bridge signed.

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::{ResultType, result_type};
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall};
use thruway_mcp_server::backend::{BoundRequest, Caller, RequestBinding, State, StateKey};

use super::bridge_core::BridgeCore;
use super::tasks::{ID_BYTES_MAX, TASK_ID, replaced, string_at};
use super::upstream::Upstream;

/// The signed task id and the signed `requestState` of one request, with the data to verify the signatures.
pub(super) struct CallerBound {
    key: StateKey,
    /// The prefix of all task ids of this server. Empty for a bridge.
    task_prefix: Box<str>,
    caller: Caller,
    /// The signed task id in the request.
    task_id: Option<String>,
    request_state: Option<String>,
}

impl CallerBound {
    pub(super) fn new(
        bridge: &BridgeCore,
        key: &StateKey,
        caller: &Caller,
        method: &str,
        params: &Params<'_>,
    ) -> Self {
        Self {
            key: key.clone(),
            task_prefix: bridge.task_prefix(),
            caller: caller.clone(),
            task_id: params.task_id.as_deref().filter(|_| is_about_tasks(method)).map(str::to_owned),
            request_state: params.request_state.as_deref().map(str::to_owned),
        }
    }

    /// Verifies the task id and the `requestState` in a request, and replaces them with the original values
    /// of the server. `process_id` identifies the current server process (see [`Upstream::process_id`]).
    ///
    /// # Errors
    /// A signature is invalid, the value belongs to another caller, or the `requestState` belongs to another
    /// request. Another cause is that the server process with the task has exited.
    pub(super) fn open(
        &self,
        forwarded_call: &mut ForwardedCall,
        process_id: &str,
    ) -> Result<(), McpClientError> {
        if let Some(sealed) = &self.task_id {
            let sealed = sealed.strip_prefix(&*self.task_prefix).ok_or_else(unknown_task)?;
            let id = self.key.open_text(sealed, &self.task_binding(process_id)).ok_or_else(unknown_task)?;
            forwarded_call.params =
                replaced(&forwarded_call.params, TASK_ID, &id).ok_or_else(unknown_task)?;
            forwarded_call.name = Some(id.into());
            forwarded_call.is_of_process = true;
        }
        if let Some(sealed) = &self.request_state {
            let state =
                self.key.open(sealed, &self.binding(forwarded_call)?).map_err(McpClientError::Server)?;
            let state = state.relayed.ok_or_else(invalid_state)?;
            forwarded_call.params =
                replaced(&forwarded_call.params, REQUEST_STATE, &state).ok_or_else(invalid_state)?;
        }
        Ok(())
    }

    /// Signs the task id and the `requestState` in an answer. Call [`Upstream::process_id`] before the
    /// request is sent, and pass its result as `process_id`.
    ///
    /// # Errors
    /// The answer is malformed, or the server process that ran the task has exited.
    pub(super) fn seal(
        &self,
        answer: Answer,
        forwarded_call: &ForwardedCall,
        process_id: &str,
        upstream: &Upstream,
    ) -> Result<Answer, McpClientError> {
        if self.task_id.is_some() && upstream.process_id() != process_id {
            return Err(unknown_task());
        }
        // Fast path, because most answers contain neither a `requestState` nor a task id. The text search
        // does not find a member name with JSON escape sequences. The caller then gets an unsigned value,
        // which the bridge rejects later.
        if !answer.get().contains("\"requestState\"") && !answer.get().contains("\"taskId\"") {
            return Ok(answer);
        }
        match result_type(&answer) {
            Ok(ResultType::InputRequired) => self.seal_state(answer, forwarded_call),
            Ok(ResultType::Task) => self.seal_task(answer, process_id),
            Ok(ResultType::Complete) if self.task_id.is_some() => self.seal_task(answer, process_id),
            _ => Ok(answer),
        }
    }

    fn seal_state(&self, answer: Answer, forwarded_call: &ForwardedCall) -> Result<Answer, McpClientError> {
        let Some(state) = string_at(&answer, REQUEST_STATE) else { return Ok(answer) };
        let sealed = self.key.seal(State::relayed(state), &self.binding(forwarded_call)?);
        let sealed = sealed.map_err(McpClientError::Server)?;
        Ok(replaced(&answer, REQUEST_STATE, &sealed).unwrap_or(answer))
    }

    fn seal_task(&self, answer: Answer, process_id: &str) -> Result<Answer, McpClientError> {
        let Some(id) = string_at(&answer, TASK_ID) else { return Ok(answer) };
        if id.len() > ID_BYTES_MAX {
            return Err(McpClientError::result_invalid(&"the task id is too long"));
        }
        let sealed = self.key.seal_text(&id, &self.task_binding(process_id));
        let sealed = format!("{}{sealed}", self.task_prefix);
        Ok(replaced(&answer, TASK_ID, &sealed).unwrap_or(answer))
    }

    /// Returns a digest of the caller, the member and the request. The signature of a `requestState` covers this
    /// digest. The digest is computed on demand, because most requests have no `requestState`.
    fn binding(&self, forwarded_call: &ForwardedCall) -> Result<RequestBinding, McpClientError> {
        let params = Params::parse(Some(&forwarded_call.params)).map_err(McpClientError::Server)?;
        let method = format!("{}{}", self.task_prefix, forwarded_call.method);
        Ok(BoundRequest::new(&self.caller, &method, &params).binding())
    }

    /// Returns a digest of the caller, the member and the server process. The signature of a task id covers
    /// this digest. The digest includes the process because a restarted server may use the same id for a task
    /// of another caller.
    fn task_binding(&self, process_id: &str) -> RequestBinding {
        RequestBinding::new(
            self.caller.principal().as_deref(),
            ["task of a bridge", process_id, &self.task_prefix],
            RawValue::NULL,
        )
    }
}

/// Returns `true` if `method` is a request about tasks in MCP revision 2026-07-28.
pub(super) fn is_about_tasks(method: &str) -> bool {
    matches!(method, methods::TASKS_GET | methods::TASKS_UPDATE | methods::TASKS_CANCEL)
}

fn unknown_task() -> McpClientError {
    McpClientError::Server(Error::invalid_params(
        "this caller has no such task, or its server process has exited",
    ))
}

fn invalid_state() -> McpClientError {
    McpClientError::Server(Error::invalid_params("`requestState` is not valid for this request"))
}

const REQUEST_STATE: &[&str] = &["requestState"];
