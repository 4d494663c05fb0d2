//! The state of a server that does not depend on its backend.

use std::fmt;
use std::sync::Arc;

use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::modern::ResultWriter;
use thruway_mcp::params::Params;
use thruway_mcp::schema::Implementation;

use super::changes::{Change, Changes};
use super::options::McpServerOptions;
use super::request_bytes::RequestBytes;
use crate::ask::StateKey;
use crate::authorization::Caller;
use crate::session::Sessions;
use crate::shares::{Share, Shares};
use crate::tasks::Tasks;

/// The state of a server that all its clones share: options, sessions, subscriptions and limits.
pub struct ServerCore {
    pub(crate) info: Implementation,
    pub(crate) options: McpServerOptions,
    pub(crate) results: ResultWriter,
    pub(crate) changes: Changes,
    pub(crate) state_key: StateKey,
    pub(crate) sessions: Sessions,
    pub(crate) request_bytes: RequestBytes,
    /// The limit on the bytes of events that sessions remember. It is separate from the limit on requests, so
    /// remembered events never cause the rejection of a request.
    pub(crate) event_bytes: Arc<Shares>,
    pub(crate) tasks: Tasks,
}

impl ServerCore {
    /// # Panics
    /// The operating system provides no random bytes.
    pub(super) fn new(info: Implementation, options: McpServerOptions) -> Self {
        Self {
            results: ResultWriter::new(&info).expect("plain data can be written"),
            changes: Changes::default(),
            state_key: options.state_key.map_or_else(StateKey::random, StateKey::new),
            sessions: Sessions::new(options.session_limits()),
            request_bytes: RequestBytes::new(&options),
            event_bytes: Shares::new(options.in_flight_bytes_max),
            tasks: Tasks::new(options.tasks.clone()),
            info,
            options,
        }
    }

    /// Returns the writer of results of the modern era, which adds the name and version of the server.
    pub const fn results(&self) -> &ResultWriter {
        &self.results
    }

    /// Returns the key that authenticates values which clients keep between requests. Clients can read these
    /// values.
    pub const fn state_key(&self) -> &StateKey {
        &self.state_key
    }

    /// Sends a notification about `change` to all clients that subscribed to it.
    pub fn announce(&self, change: &Change) {
        self.changes.announce(change);
    }

    /// Ends the sessions that were idle for too long.
    pub fn end_idle_sessions(&self) {
        self.sessions.sweep();
    }

    /// Counts the bytes of a request until the returned value is dropped. Returns `None` for a small request,
    /// which does not count.
    ///
    /// # Errors
    /// All requests in progress, or those of this caller, have too many bytes.
    pub fn hold_bytes_of(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<Option<Share>, Error> {
        self.request_bytes.hold(caller, request, params)
    }
}

impl fmt::Debug for ServerCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCore").field("info", &self.info).finish_non_exhaustive()
    }
}
