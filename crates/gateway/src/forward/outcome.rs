//! The outcome of an attempt: a response, or a failure and the party that caused it.

use std::sync::Arc;

use thruway_server::Response;

use crate::Failure;
use crate::upstream::{NotOpened, Server, ServerSlot, Upstream};

/// The outcome of one attempt at one server.
pub(super) enum AttemptOutcome {
    /// The response for the client.
    Responded(Response),
    /// The attempt failed. `retry` decides if the request may be sent again.
    Failed(FailedAttempt),
}

/// An attempt without a response.
pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    pub(super) blame: Blame,
    /// Number of the connection, if it is shared.
    pub(super) connection: u64,
    /// The upstream of the server. It differs from the upstream of the request if a reload replaced that.
    pub(super) upstream: Arc<Upstream>,
    pub(super) server: Arc<Server>,
}

/// The party that a failure counts against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blame {
    /// The server or the request. The failure counts, and another server may succeed.
    Server,
    /// Only the connection: it was idle, and the server may close an idle connection at any time. The same
    /// server may get the request again.
    Connection,
}

/// Facts about the connection of an attempt that decide about the blame.
#[derive(Clone, Copy)]
pub(super) struct UsedConnection {
    /// Number of the connection, if it is shared.
    pub(super) number: u64,
    /// `true` if the connection was used before and the request did not require a new one.
    pub(super) may_be_stale: bool,
}

impl Blame {
    const fn of(failure: Failure, may_be_stale: bool) -> Self {
        if failure.retry().counts_against_no_server(may_be_stale) { Self::Connection } else { Self::Server }
    }
}

impl AttemptOutcome {
    /// Reports a failed exchange to the health of the server.
    #[cold]
    pub(super) fn failed(slot: &ServerSlot, failure: Failure, used: UsedConnection) -> Self {
        let UsedConnection { number, may_be_stale } = used;
        let blame = Blame::of(failure, may_be_stale);
        slot.failed(failure, may_be_stale);
        if blame == Blame::Server {
            slot.server.statistics().count_failure(failure);
        }
        Self::of(slot, failure, blame, number)
    }

    /// Reports a failed connection to the health of the server, unless another request has reported it.
    #[cold]
    pub(super) fn not_opened(slot: &ServerSlot, not_opened: NotOpened) -> Self {
        let NotOpened { failure, is_counted } = not_opened;
        if is_counted {
            slot.failed_with_another(failure);
        } else {
            slot.failed(failure, false);
            slot.server.statistics().count_failure(failure);
        }
        Self::of(slot, failure, Blame::Server, 0)
    }

    fn of(slot: &ServerSlot, failure: Failure, blame: Blame, connection: u64) -> Self {
        let (upstream, server) = (slot.upstream.clone(), slot.server.clone());
        Self::Failed(FailedAttempt { failure, blame, connection, upstream, server })
    }
}
