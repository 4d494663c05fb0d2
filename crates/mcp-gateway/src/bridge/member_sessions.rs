//! The state that is stored for the session of a legacy client. A federation has several servers, its
//! members. Each member stores separate state for each session. A bridge has only one server.

use std::sync::{Arc, OnceLock};

use thruway_mcp::Revision;
use thruway_mcp::json_rpc::Notification;
use thruway_mcp::schema::{LoggingLevel, methods};
use thruway_mcp_server::backend::{BackendSession, DroppedMessages, Session};

use super::bridge_core::BridgeCore;
use super::era_server::EraServer;
use super::session_state::SessionState;
use super::tasks::TaskOwner;

/// The state of one session at all members. A member fills its slot when it handles the first request of the
/// session, because the member may connect after the session began.
#[derive(Debug)]
pub(crate) struct MemberSessions {
    slots: Box<[OnceLock<BridgeSession>]>,
    /// Identifies the session in audit events.
    number: u64,
    dropped: Arc<DroppedMessages>,
}

/// The state of one session at one member.
#[derive(Debug)]
pub(crate) struct BridgeSession {
    /// The connections in the era that the bridge chose at the first request of the session.
    pub(super) era_server: Arc<EraServer>,
    pub(super) state: Arc<SessionState>,
}

impl MemberSessions {
    /// Creates the state for `members` members, without any member's state. `number` identifies the session.
    pub(crate) fn new(members: usize, number: u64, dropped: Arc<DroppedMessages>) -> Self {
        Self { slots: (0..members).map(|_| OnceLock::new()).collect(), number, dropped }
    }

    /// Returns the number of `session`. Returns `None` if the session has no state of a gateway.
    pub(crate) fn number_of(session: &Session) -> Option<u64> {
        session.backend::<Self>().map(|sessions| sessions.number)
    }
}

impl BridgeSession {
    /// Returns the key under which the bridge stores the tasks of this session. Returns `None` if the bridge
    /// does not forward tasks for this session.
    pub(super) fn owner(&self) -> Option<&TaskOwner> {
        self.state.owner()
    }
}

impl BridgeCore {
    /// Returns the state of `session` at this server. The first call for a session creates the state. If the
    /// client has already set a log level, also makes the server send the messages of this level.
    pub(crate) fn session_of<'s>(self: &Arc<Self>, session: &'s Arc<Session>) -> Option<&'s BridgeSession> {
        let sessions: &MemberSessions = session.backend()?;
        let is_new = sessions.slots.get(self.slot)?.get().is_none();
        let own = self.session_in(sessions, session.revision);
        if is_new && session.log_level() != Some(LoggingLevel::Info) {
            let (bridge, session) = (self.clone(), session.clone());
            // The server may have no log messages, so ignore errors.
            tokio::spawn(async move { bridge.log_for(&session).await.ok() });
        }
        own
    }

    /// Returns the state of a session at this server. `revision` is the revision of the client.
    pub(super) fn session_in<'s>(
        self: &Arc<Self>,
        sessions: &'s MemberSessions,
        revision: Revision,
    ) -> Option<&'s BridgeSession> {
        let slot = sessions.slots.get(self.slot)?;
        Some(slot.get_or_init(|| self.begin_session(revision)))
    }

    fn begin_session(self: &Arc<Self>, revision: Revision) -> BridgeSession {
        let era_server = self.server_of_session().clone();
        let state = Arc::new(SessionState::new(era_server.tasks_of_session(revision)));
        let watching = era_server.clone();
        tokio::spawn(async move { watching.watch_lists().await });
        BridgeSession { era_server, state }
    }
}

impl BackendSession for MemberSessions {
    /// If the client's roots have changed, notifies the dedicated servers of the session.
    fn handle_notification(&self, notification: &Notification<'_>) {
        if notification.method != methods::NOTIFICATIONS_ROOTS_LIST_CHANGED {
            return;
        }
        for session in self.slots.iter().filter_map(OnceLock::get) {
            if let Some(upstream) = session.state.upstream().clone() {
                upstream.notify_roots_changed();
            }
        }
    }

    fn dropped(&self) -> &Arc<DroppedMessages> {
        &self.dropped
    }
}
