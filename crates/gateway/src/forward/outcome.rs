//! The failure of an attempt, and its cause.

use std::sync::Arc;

use crate::Failure;
use crate::upstream::{NotOpened, Server, ServerSlot, Upstream};

/// An attempt that got no response.
pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    pub(super) blame: Blame,
    /// Sequence number of the shared HTTP/2 connection. 0 if the connection is not shared.
    pub(super) connection: u64,
    /// The upstream of the server. After a reload of the config, this upstream can differ from the upstream
    /// at the start of the request.
    pub(super) upstream: Arc<Upstream>,
    pub(super) server: Arc<Server>,
}

/// The cause of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blame {
    /// The server or the request caused the failure. The failure is counted, and another server may
    /// succeed.
    Server,
    /// Only the connection caused the failure. The connection was idle, and a server may close an idle
    /// connection at any time. The gateway may send the request to the same server again.
    Connection,
}

/// Properties of the connection that an attempt used. They show whether the server or only the connection
/// caused a failure.
#[derive(Clone, Copy)]
pub(super) struct UsedConnection {
    /// Sequence number of the shared HTTP/2 connection. 0 if the connection is not shared.
    pub(super) number: u64,
    /// `true` if the connection is a reused connection, so that the server may already have closed it.
    /// `false` if the request required a new connection.
    pub(super) may_be_stale: bool,
}

impl Blame {
    const fn of(failure: Failure, may_be_stale: bool) -> Self {
        if failure.retry().counts_against_no_server(may_be_stale) { Self::Connection } else { Self::Server }
    }
}

impl FailedAttempt {
    /// Records a failed exchange in the health and the statistics of the server, and returns the failure.
    #[cold]
    pub(super) fn of_exchange(slot: &ServerSlot, failure: Failure, used: UsedConnection) -> Self {
        let UsedConnection { number, may_be_stale } = used;
        let blame = Blame::of(failure, may_be_stale);
        slot.failed(failure, may_be_stale);
        if blame == Blame::Server {
            slot.server.statistics().count_failure(failure);
        }
        Self::of(slot, failure, blame, number)
    }

    /// Records a failed connection in the health of the server, unless another request has already recorded
    /// the failure. Returns the failure.
    #[cold]
    pub(super) fn of_connection(slot: &ServerSlot, not_opened: NotOpened) -> Self {
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
        Self { failure, blame, connection, upstream, server }
    }
}
