//! Plan of a worker, and the steps of a request.

use std::time::Duration;

use crate::schedule::Pace;
use crate::stop::{Limit, StopFlag};

/// Use of the connections.
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
    /// When requests start.
    pub pace: Pace,
    /// When the load ends.
    pub limit: Limit,
    /// Duration of the warm-up.
    pub warm_up: Duration,
    /// Which worker this is.
    pub worker: usize,
    /// Number of workers.
    pub workers: usize,
    /// Duration of each `Interval`.
    pub interval: Duration,
    /// Ends the load from outside.
    pub stop: StopFlag,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Phase {
    /// Requests start.
    Running,
    /// No request starts; requests in progress may complete.
    Draining {
        /// Until then.
        until: Duration,
    },
    /// The load is over; nothing counts.
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
    /// Wait: the task is woken when a request is due.
    Wait,
    /// The load is over.
    Over,
}

/// A complete answer.
pub(super) struct Answered {
    /// Status; `None` over pipes.
    pub(super) status: Option<u16>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) is_event_stream: bool,
}
