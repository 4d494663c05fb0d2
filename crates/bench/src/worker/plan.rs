//! Plan of a worker, and the steps of a request.

use std::time::Duration;

use crate::schedule::Pace;
use crate::stop::{Limit, StopFlag};

/// The use of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionOptions {
    /// `true` for HTTP/2, with prior knowledge or by ALPN; otherwise HTTP/1.1.
    pub is_http2: bool,
    /// Number of concurrent requests on a connection, at least 1. In a closed loop over HTTP/1.1, the worker
    /// sends the next batch in one write when all requests are answered. Over HTTP/2, each request has a
    /// stream, and the worker sends the next one after each response.
    pub pipeline: usize,
    /// `true` if a connection carries more than one request. `Requests` sets the header.
    pub is_persistent: bool,
    /// Timeout of a request, from its actual start.
    pub timeout: Duration,
    /// Maximum time that an open loop waits for the last responses; at most a second after a stop from
    /// outside.
    pub drain: Duration,
}

/// Share of a worker in the load.
#[derive(Clone)]
pub struct Share {
    /// The schedule of the requests.
    pub pace: Pace,
    /// The end of the load.
    pub limit: Limit,
    /// The duration of the warm-up.
    pub warm_up: Duration,
    /// The number of this worker.
    pub worker: usize,
    /// The number of workers.
    pub workers: usize,
    /// The duration of each `Interval`.
    pub interval: Duration,
    /// Stops the load from outside.
    pub stop: StopFlag,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Phase {
    /// Requests start as scheduled.
    Running,
    /// No request starts; requests in progress may complete.
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

/// Next step of a connection that can send.
pub(super) enum NextStep {
    Start(StartedRequest),
    /// Waits: the task is woken when a request is due.
    Wait,
    /// The load is over.
    Over,
}

/// A complete response.
pub(super) struct Answered {
    /// The status; `None` over pipes.
    pub(super) status: Option<u16>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) is_event_stream: bool,
}
