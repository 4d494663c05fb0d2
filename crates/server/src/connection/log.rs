//! Data for the record of a request, from the parsing of the request to the end of its response.

use std::rc::Rc;
use std::time::Duration;

use thruway_message::{OwnedRequestHead, RequestHead, StatusCode};
use thruway_telemetry::RequestTrace;

use crate::response::{Response, ResponseMetadata};

/// Data of a request that is not recorded yet.
pub(crate) struct Log {
    /// The request head. `None` for bytes that are not a valid request.
    pub(crate) head: Option<OwnedRequestHead>,
    pub(crate) start: RecordStart,
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
    pub(crate) fn keep(self) -> Box<Log> {
        match self {
            Self::Parsed { head, start } => {
                Box::new(Log { head: Some(OwnedRequestHead::from(*head)), start: start.clone() })
            }
            Self::Kept(log) => log,
        }
    }
}

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

/// Status in access logs if the client left before the response. As in nginx, this status is only logged and
/// never sent.
pub(crate) const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};
