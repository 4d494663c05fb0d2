//! Data for the record of a request, from the parsing of the request to the end of its response.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use thruway_message::{OwnedRequestHead, RequestHead, StatusCode};
use thruway_telemetry::RequestTrace;

use crate::response::{Response, ResponseMetadata};

/// Data of a request that is not recorded yet.
pub(crate) struct Log {
    /// The request head. `None` for bytes that are not a valid request.
    pub(crate) head: Option<OwnedRequestHead>,
    pub(crate) start: RecordStart,
}

impl Log {
    /// Returns this log for another request.
    fn replaced(mut self: Box<Self>, head: &RequestHead<'_>, start: &RecordStart) -> Box<Self> {
        match &mut self.head {
            Some(copy) => copy.replace(head),
            None => self.head = Some(OwnedRequestHead::from(*head)),
        }
        self.start = start.clone();
        self
    }
}

/// The start of a request to record.
#[derive(Clone)]
pub(crate) struct RecordStart {
    /// Time at which the head has arrived.
    pub(crate) at: Duration,
    /// The trace of the request. `None` if tracing is off.
    pub(crate) trace: Option<Rc<RequestTrace>>,
}

/// A request to record. Its head is either still in the parse buffer, or already copied.
pub(crate) enum Logged<'a> {
    Parsed { head: &'a RequestHead<'a>, start: &'a RecordStart },
    Kept(Box<Log>),
}

/// Record of a response with a large body that is being written.
pub(super) struct TailRecord {
    pub(super) log: Box<Log>,
    pub(super) outcome: Outcome,
}

impl Logged<'_> {
    pub(super) const fn start(&self) -> &RecordStart {
        match self {
            Self::Parsed { start, .. } => start,
            Self::Kept(log) => &log.start,
        }
    }

    /// Copies the request head, so that the request can be recorded later.
    pub(super) fn keep(self, unused: Option<&UnusedLogs>) -> Box<Log> {
        match self {
            Self::Parsed { head, start } => match unused.and_then(UnusedLogs::take) {
                Some(log) => log.replaced(head, start),
                None => Box::new(Log { head: Some(OwnedRequestHead::from(*head)), start: start.clone() }),
            },
            Self::Kept(log) => log,
        }
    }
}

/// Memory of recorded requests, for later requests of the same worker.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a request takes the allocation, without a copy of the log")]
pub(crate) struct UnusedLogs(RefCell<Vec<Box<Log>>>);

impl UnusedLogs {
    fn take(&self) -> Option<Box<Log>> {
        self.0.borrow_mut().pop()
    }

    /// Keeps the memory of `log`, unless it is large or much memory is unused.
    #[inline]
    pub(super) fn add(&self, log: Box<Log>) {
        let is_small = log.head.as_ref().is_some_and(|head| head.memory_bytes() <= UNUSED_BYTES_MAX);
        let mut unused = self.0.borrow_mut();
        if is_small && unused.len() < UNUSED_MAX {
            unused.push(log);
        }
    }
}

/// Maximum number of unused logs of a worker.
const UNUSED_MAX: usize = 64;

/// Maximum memory of the head of an unused log.
const UNUSED_BYTES_MAX: usize = 2 << 10;

/// Outcome of a request, for its record.
pub(crate) struct Outcome {
    pub(crate) status: StatusCode,
    pub(crate) content_bytes: u64,
    pub(crate) received_bytes: Option<u64>,
    pub(crate) is_complete: bool,
    pub(crate) metadata: Option<ResponseMetadata>,
}

impl Outcome {
    /// Returns the outcome for `response` with a complete body of `content_bytes` bytes.
    pub(crate) fn of(response: &mut Response, content_bytes: u64) -> Self {
        let (status, metadata) = (response.status(), response.take_metadata());
        Self { status, content_bytes, received_bytes: None, is_complete: true, metadata }
    }
}

/// The relation between the worker's clock and the time of day.
#[derive(Clone, Copy)]
pub(super) struct SpanTimes {
    /// The end of the request in nanoseconds since the Unix epoch.
    pub(super) end_nanos: u64,
    /// Difference between the time since the Unix epoch and the worker's clock, in nanoseconds.
    difference: u64,
}

impl SpanTimes {
    /// Creates the relation at the end of a request: `end` on the worker's clock is the time of day `time`.
    pub(super) fn new(end: Duration, time: SystemTime) -> Self {
        let end_nanos = nanos(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        Self { end_nanos, difference: end_nanos.wrapping_sub(nanos(end)) }
    }

    /// Returns the time `at` of the worker's clock in nanoseconds since the Unix epoch.
    #[inline]
    pub(super) fn nanos(&self, at: Duration) -> u64 {
        self.difference.wrapping_add(nanos(at)).min(self.end_nanos)
    }
}

/// Returns the duration in nanoseconds. The result wraps around after 584 years.
#[inline]
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(duration.subsec_nanos().into())
}

/// Status in access logs if the client left before the response. As in nginx, this status is only logged and
/// never sent.
pub(crate) const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};
