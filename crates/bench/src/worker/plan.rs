//! Options of a worker, and the states of a request.

use std::time::Duration;

use crate::schedule::Pace;
use crate::stop::{Limit, StopFlag};

/// Options for the use of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionOptions {
    /// `true` for HTTP/2, `false` for HTTP/1.1. With TLS, the client selects HTTP/2 by ALPN. Without TLS,
    /// the client uses HTTP/2 with prior knowledge.
    pub is_http2: bool,
    /// Number of concurrent requests on a connection, at least 1. In a closed loop over HTTP/1.1, the
    /// worker sends this many requests in one write. The worker sends the next batch when all requests of a
    /// batch are answered. Over HTTP/2, each request has a separate stream, and each response starts the
    /// next request.
    pub pipeline: usize,
    /// `true` if a connection carries several requests (keep-alive). [`Requests`](crate::Requests) must
    /// write the matching `Connection` header.
    pub is_persistent: bool,
    /// Timeout of a request, from its actual start.
    pub timeout: Duration,
    /// Maximum time that an open loop waits for the last responses. If the caller stops the load, the open
    /// loop waits for at most one second.
    pub drain: Duration,
}

/// The part of a load that one worker runs.
#[derive(Clone)]
pub struct Share {
    /// The schedule of the requests.
    pub pace: Pace,
    /// The limit of the whole load.
    pub limit: Limit,
    /// The duration of the warm-up.
    pub warm_up: Duration,
    /// The number of this worker, counted from 0.
    pub worker: usize,
    /// The number of all workers.
    pub workers: usize,
    /// The duration of each interval of the results.
    pub interval: Duration,
    /// Lets the caller stop the load.
    pub stop: StopFlag,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Phase {
    /// Requests start as scheduled.
    Running,
    /// No further request starts, but requests in progress may complete.
    Draining {
        /// The end of this phase.
        until: Duration,
    },
    /// The load is over. Later events do not count.
    Over,
}

/// A request that has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StartedRequest {
    pub(super) number: u64,
    pub(super) intended: Duration,
    pub(super) started: Duration,
}

/// The step of a scenario to which a request belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StepRequest {
    /// Index of the step.
    pub(super) index: usize,
    /// Scheduled start of the step: the start of its first request, before all redirects.
    pub(super) since: Duration,
}

/// Next step of a connection that can send a request.
pub(super) enum NextStep {
    Start(StartedRequest),
    /// The connection waits. The task of the connection is woken when a request is due.
    Wait,
    /// The load is over.
    Over,
}

/// A complete response.
pub(super) struct Answered {
    /// The HTTP status, or `None` over pipes.
    pub(super) status: Option<u16>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) is_event_stream: bool,
}
