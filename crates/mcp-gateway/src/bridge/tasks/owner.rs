//! Whose a task is, and who is told of it.

use std::sync::{Arc, Weak};

use crate::bridge::outbox::{Outbox, WeakOutbox};
use thruway_mcp::schema::RequestId;
use thruway_mcp_client::forwarding::Unsent;
use thruway_mcp_server::backend::Said;
use thruway_mcp_server::backend::Session;

/// Whose a task is: for everybody else it is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A session's: it has a number that no other one has.
    Session(u64),
}

/// Who is told how a task stands.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct Listener {
    session: Weak<Session>,
    /// The request that is open and about the task, if one is.
    outbox: WeakOutbox,
    /// What progress is reported under.
    progress_token: Option<RequestId>,
}

impl Listener {
    pub(in crate::bridge) fn new(
        session: &Arc<Session>,
        outbox: &Outbox,
        progress_token: Option<RequestId>,
    ) -> Self {
        Self { session: Arc::downgrade(session), outbox: outbox.downgrade(), progress_token }
    }

    /// The same, told on the stream of another request.
    pub(in crate::bridge) fn listen_on(&mut self, outbox: &Outbox) {
        self.outbox = outbox.downgrade();
    }

    pub(super) const fn progress_token(&self) -> Option<&RequestId> {
        self.progress_token.as_ref()
    }

    /// Sends a message on the stream of the request that is open, or else on the stream for messages outside
    /// of requests. Returns it if the client has to read first.
    pub(super) fn tell(&self, message: Vec<u8>) -> Option<Unsent> {
        if let Some(outbox) = self.outbox.upgrade() {
            return outbox.send(message);
        }
        let session = self.session.upgrade()?;
        if session.asides()?.outbox().try_send(Said::Message(message)).is_err() {
            self.outbox.dropped().note(1, "the client opens no stream for messages outside of its requests");
        }
        None
    }
}
