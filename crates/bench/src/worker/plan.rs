//! What a worker is to do, and the steps of a request.

use std::time::Duration;

use crate::schedule::Pace;
use crate::stop::{Limit, StopFlag};

/// How connections are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Whether HTTP/2 is spoken: at once, or as it was agreed upon when the connection was opened. Otherwise
    /// HTTP/1.1 is.
    pub is_http2: bool,
    /// Requests on a connection that are not answered at the same time, at least 1. In a closed loop of
    /// HTTP/1.1 the next are sent when all are answered, in one write; over HTTP/2 each has a stream, and the
    /// next is sent as soon as one is answered.
    pub pipeline: usize,
    /// Whether a connection has more than one request. Whether the requests say so is for [`Requests`].
    pub is_persistent: bool,
    /// How long a request may take, from its actual start.
    pub timeout: Duration,
    /// How long an open loop waits for the last answers when it has ended; at most a second if that was from
    /// outside.
    pub drain: Duration,
}

/// What load a worker makes, and its part in it.
#[derive(Clone)]
pub struct Share {
    /// When requests start.
    pub pace: Pace,
    /// When the load ends.
    pub limit: Limit,
    /// How long requests are made before they are measured.
    pub warm_up: Duration,
    /// Which worker this is.
    pub worker: usize,
    /// How many there are.
    pub workers: usize,
    /// How long each [`Interval`] is.
    pub interval: Duration,
    /// Ends the load from outside.
    pub stop: StopFlag,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Phase {
    /// Requests start.
    Running,
    /// None do; those on their way may be answered.
    Draining {
        /// Until then.
        until: Duration,
    },
    /// Nothing counts any more.
    Over,
}

/// A request that has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket {
    pub(super) number: u64,
    pub(super) intended: Duration,
    pub(super) started: Duration,
}

/// What there is to do for a connection that can send.
pub(super) enum Taken {
    Start(Ticket),
    /// Nothing yet: the task is woken when there is.
    Wait,
    /// Nothing any more.
    Over,
}

/// A complete answer.
pub(super) struct Answered {
    /// None where there are none, over pipes.
    pub(super) status: Option<u16>,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) is_event_stream: bool,
}
