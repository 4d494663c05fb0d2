//! Signatures of the values that a modern server sends to one caller: `requestState` values and task ids.

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::Params;
use thruway_mcp_server::backend::{BoundRequest, Caller, RequestBinding, State, StateKey};

use super::bridge_core::BridgeCore;

/// Signs and verifies the values of one server for one caller.
pub(crate) struct CallerSeal {
    key: StateKey,
    /// The prefix of all task ids of this server. Empty for a bridge.
    task_prefix: Box<str>,
    caller: Caller,
}

impl CallerSeal {
    pub(crate) fn new(bridge: &BridgeCore, key: &StateKey, caller: &Caller) -> Self {
        Self { key: key.clone(), task_prefix: bridge.task_prefix(), caller: caller.clone() }
    }

    /// Verifies a `requestState` that the caller sends with the method `method` and the parameters `params` for the
    /// server. Returns the state of the server.
    ///
    /// # Errors
    /// The signature is invalid or has expired, or it belongs to another caller, server or request.
    pub(crate) fn open_state(
        &self,
        sealed: &str,
        method: &str,
        params: &Params<'_>,
    ) -> Result<String, Error> {
        let state = self.key.open(sealed, &self.binding(method, params))?;
        state.relayed.ok_or_else(|| Error::invalid_params("`requestState` is not valid for this request"))
    }

    /// Signs the state that the server sent in its answer to the request with the method `method` and the parameters
    /// `params`. Each replica can open the signed state.
    ///
    /// # Errors
    /// The state cannot be written as JSON.
    pub(crate) fn seal_state(
        &self,
        state: String,
        method: &str,
        params: &Params<'_>,
    ) -> Result<String, Error> {
        self.key.seal(State::relayed(state), &self.binding(method, params))
    }

    /// Signs a state as [`seal_state`](Self::seal_state) does. Only this replica can open the signed state if the server
    /// is a child process of this replica, or if this replica must see each use of a state.
    ///
    /// # Errors
    /// The state cannot be written as JSON.
    pub(super) fn seal_state_of(
        &self,
        process_id: &str,
        state: String,
        method: &str,
        params: &Params<'_>,
    ) -> Result<String, Error> {
        if process_id.is_empty() && !self.key.pins_states() {
            return self.seal_state(state, method, params);
        }
        self.key.seal_for_replica(State::relayed(state), &self.binding(method, params))
    }

    /// Verifies a task id. Returns the id of the server, or `None` if the signature is invalid.
    pub(super) fn open_task_id(&self, sealed: &str, process_id: &str) -> Option<String> {
        self.key.open_task(sealed.strip_prefix(&*self.task_prefix)?, &self.task_binding(process_id))
    }

    /// Signs a task id of the server. Only this replica can open the signed id if the server is a child process.
    pub(super) fn seal_task_id(&self, id: &str, process_id: &str) -> String {
        let binding = self.task_binding(process_id);
        let sealed = if process_id.is_empty() {
            self.key.seal_text(id, &binding)
        } else {
            self.key.seal_task_for_replica(id, &binding)
        };
        format!("{}{sealed}", self.task_prefix)
    }

    /// Returns a digest of the caller, the server and the request. The signature of a `requestState` covers this
    /// digest. The digest is computed on demand, because most requests have no `requestState`.
    fn binding(&self, method: &str, params: &Params<'_>) -> RequestBinding {
        let method = format!("{}{method}", self.task_prefix);
        BoundRequest::new(&self.caller, &method, params).binding()
    }

    /// Returns a digest of the caller, the server and the server process. The signature of a task id covers
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
