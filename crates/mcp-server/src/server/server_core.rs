//! The part of a server's state that does not depend on the backend.

use std::fmt;
use std::sync::{Arc, OnceLock};

use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::modern::ResultWriter;
use thruway_mcp::params::Params;
use thruway_mcp::schema::Implementation;

use super::change_sharing::{ChangeSharing, SharedChanges};
use super::changes::{Change, Changes};
use super::options::McpServerOptions;
use super::request_bytes::RequestBytes;
use crate::ask::StateKey;
use crate::authorization::Caller;
use crate::session::Sessions;
use crate::shares::{Share, Shares};
use crate::tasks::Tasks;

/// The state that all clones of a server share: options, sessions, subscriptions and limits.
pub struct ServerCore {
    pub(crate) info: Implementation,
    pub(crate) options: McpServerOptions,
    pub(crate) results: ResultWriter,
    pub(crate) changes: Changes,
    /// The exchange of changes with other replicas, if any.
    pub(super) sharing: OnceLock<ChangeSharing>,
    pub(crate) state_key: StateKey,
    pub(crate) sessions: Sessions,
    pub(crate) request_bytes: RequestBytes,
    /// The limit on the total size of the events that sessions store. This limit is separate from the limit
    /// on requests, so that stored events never cause the rejection of a request.
    pub(crate) event_bytes: Arc<Shares>,
    pub(crate) tasks: Tasks,
}

impl ServerCore {
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub(super) fn new(info: Implementation, options: McpServerOptions) -> Self {
        Self {
            results: ResultWriter::new(&info).expect("the server description can be written as JSON"),
            changes: Changes::default(),
            sharing: OnceLock::new(),
            state_key: StateKey::of(&options),
            sessions: Sessions::new(options.session_limits())
                .name_replica(options.replica_ids.clone())
                .archive_events(options.event_archive.clone()),
            request_bytes: RequestBytes::new(&options),
            event_bytes: Shares::new(options.in_flight_bytes_max),
            tasks: Tasks::new(options.tasks.clone(), options.replica_ids.clone()),
            info,
            options,
        }
    }

    /// Returns the writer for results of the modern era. The writer adds the name and version of the server
    /// to each result.
    pub const fn results(&self) -> &ResultWriter {
        &self.results
    }

    /// Returns the key for the signatures of values that clients store for the server between requests.
    /// Clients can read these values, but the server detects changes.
    pub const fn state_key(&self) -> &StateKey {
        &self.state_key
    }

    /// Notifies all clients of this server that subscribed to `change`. Does not notify clients of other replicas.
    pub fn announce(&self, change: &Change) {
        self.changes.announce(change);
    }

    /// Notifies all clients that subscribed to `change`, also clients of other replicas (see [`ChangeSharing`]).
    pub fn announce_and_share(&self, change: &Change) {
        self.changes.announce(change);
        if let Some(sharing) = self.sharing.get() {
            sharing.note(change);
        }
    }

    /// Notifies the clients of this server about changes of other replicas. With `may_share_resources`, lost changes also
    /// concern resources.
    pub(super) fn announce_changes_of_others(&self, changes: &SharedChanges, may_share_resources: bool) {
        changes.changed_lists().for_each(|change| self.announce(&change));
        if changes.is_unknown() && may_share_resources {
            self.changes.announce_everything();
        }
        changes.uris().for_each(|uri| self.announce(&Change::Resource(uri.into())));
    }

    /// Ends the subscriptions of modern clients. Also ends subscriptions that start later. The clients get the
    /// result of `subscriptions/listen`.
    pub fn end_subscriptions(&self) {
        self.changes.end();
    }

    /// Returns the number of sessions. Only the legacy era has sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of questions that legacy clients have not answered yet.
    pub fn unanswered_count(&self) -> usize {
        self.sessions.unanswered()
    }

    /// Returns the number of open subscriptions of modern clients. A session of the legacy era also has a
    /// subscription, which does not count.
    pub fn subscription_count(&self) -> usize {
        self.changes.subscription_count().saturating_sub(self.sessions.len())
    }

    /// Ends all sessions that were idle for too long.
    pub fn end_idle_sessions(&self) {
        self.sessions.sweep();
    }

    /// Ends the sessions of legacy clients over HTTP that have no request in progress, and their event streams. Call
    /// this method repeatedly while the server shuts down. The clients learn from the answer to their next request
    /// that the server shuts down.
    pub fn end_sessions_without_requests(&self) {
        self.sessions.end_without_requests();
    }

    /// Ends all sessions of legacy clients over HTTP, and their event streams.
    pub fn end_sessions(&self) {
        self.sessions.end_all();
    }

    /// Counts a request toward `in_flight_bytes_max` until the returned share is dropped. Returns `None` for
    /// a small request, which does not count.
    ///
    /// # Errors
    /// Returns an error if this limit, or the caller's share of this limit, is reached.
    pub fn hold_bytes_of(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<Option<Share>, Error> {
        self.request_bytes.hold(caller, request, params)
    }

    /// Counts `bytes` bytes of a request of `caller` toward `in_flight_bytes_max` until the returned share is
    /// dropped. Returns `None` for a small number of bytes, which does not count.
    ///
    /// # Errors
    /// Returns an error if this limit, or the caller's share of this limit, is reached.
    pub fn hold_bytes(&self, caller: &Caller, bytes: usize) -> Result<Option<Share>, Error> {
        self.request_bytes.hold_bytes(&caller.holder(), bytes)
    }
}

impl fmt::Debug for ServerCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCore").field("info", &self.info).finish_non_exhaustive()
    }
}
