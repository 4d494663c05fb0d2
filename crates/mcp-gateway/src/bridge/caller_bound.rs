//! Protects two kinds of values that a modern server sends: task ids and `requestState` values. Only the
//! caller that received such a value can use it.
//!
//! The server sees the bridge as a single client, so the server cannot distinguish the callers. Therefore,
//! the bridge signs each value for the caller that receives it. When a caller sends the value back, the
//! bridge verifies the signature. All callers without a token count as the same caller. The bridge does not
//! store these values. If two bridges have the same
//! [`state_key`](thruway_mcp_server::McpServerOptions::state_key), each of them accepts values that the other
//! bridge signed.

use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::{ResultType, result_type};
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall};
use thruway_mcp_server::backend::{Caller, StateKey};

use super::bridge_core::BridgeCore;
use super::caller_seal::CallerSeal;
use super::tasks::{ID_BYTES_MAX, TASK_ID, replaced, string_at};
use super::upstream::Upstream;

/// The signed task id and the signed `requestState` of one request, with the data to verify the signatures.
pub(super) struct CallerBound {
    seal: CallerSeal,
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
            seal: CallerSeal::new(bridge, key, caller),
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
            let id = self.seal.open_task_id(sealed, process_id).ok_or_else(unknown_task)?;
            forwarded_call.params =
                replaced(&forwarded_call.params, TASK_ID, &id).ok_or_else(unknown_task)?;
            forwarded_call.name = Some(id.into());
            forwarded_call.is_of_process = true;
        }
        if let Some(sealed) = &self.request_state {
            let params = Params::parse(Some(&forwarded_call.params)).map_err(McpClientError::Server)?;
            let opened = self.seal.open_state(sealed, &forwarded_call.method, &params);
            let state = opened.map_err(McpClientError::Server)?;
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
            Ok(ResultType::InputRequired) => self.seal_state(answer, forwarded_call, process_id),
            Ok(ResultType::Task) => self.seal_task(answer, None, process_id),
            Ok(ResultType::Complete) if self.task_id.is_some() => {
                self.seal_task(answer, forwarded_call.name.as_deref(), process_id)
            }
            _ => Ok(answer),
        }
    }

    fn seal_state(
        &self,
        answer: Answer,
        forwarded_call: &ForwardedCall,
        process_id: &str,
    ) -> Result<Answer, McpClientError> {
        let Some(state) = string_at(&answer, REQUEST_STATE) else { return Ok(answer) };
        let params = Params::parse(Some(&forwarded_call.params)).map_err(McpClientError::Server)?;
        let sealed = self.seal.seal_state_of(process_id, state, &forwarded_call.method, &params);
        let sealed = sealed.map_err(McpClientError::Server)?;
        Ok(replaced(&answer, REQUEST_STATE, &sealed).unwrap_or(answer))
    }

    /// Replaces the task id in an answer. `requested` is the server's id of the task in the request. The caller gets
    /// the id in its request again, because another signature of the same id would look like another task.
    fn seal_task(
        &self,
        answer: Answer,
        requested: Option<&str>,
        process_id: &str,
    ) -> Result<Answer, McpClientError> {
        let Some(id) = string_at(&answer, TASK_ID) else { return Ok(answer) };
        if id.len() > ID_BYTES_MAX {
            return Err(McpClientError::result_invalid(&"the task id is too long"));
        }
        let of_request = self.task_id.clone().filter(|_| requested == Some(&*id));
        let sealed = of_request.unwrap_or_else(|| self.seal.seal_task_id(&id, process_id));
        Ok(replaced(&answer, TASK_ID, &sealed).unwrap_or(answer))
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
