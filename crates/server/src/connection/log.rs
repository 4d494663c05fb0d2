//! The record of a request, from parsing to the end of its response.

use std::time::Duration;

use thruway_message::{OwnedRequestHead, RequestHead, StatusCode};

use crate::response::{Response, ResponseMetadata};

/// Data of a request that is not recorded yet.
pub(crate) struct Log {
    /// The head. `None` for bytes that are not a request.
    pub(crate) head: Option<OwnedRequestHead>,
    pub(crate) started: Duration,
}

/// A request to record, either still parsed in the buffer or copied.
pub(crate) enum Logged<'a> {
    Parsed { head: &'a RequestHead<'a>, started: Duration },
    Kept(Box<Log>),
}

/// Record of a response with a large body that is being written.
pub(super) struct TailRecord {
    pub(super) log: Box<Log>,
    pub(super) outcome: Outcome,
}

impl Logged<'_> {
    /// Copies the data that a later record needs.
    pub(crate) fn keep(self) -> Box<Log> {
        match self {
            Self::Parsed { head, started } => {
                Box::new(Log { head: Some(OwnedRequestHead::from(*head)), started })
            }
            Self::Kept(log) => log,
        }
    }
}

/// Result of a request, for its record.
pub(crate) struct Outcome {
    pub(crate) status: StatusCode,
    pub(crate) content_bytes: u64,
    pub(crate) received_bytes: Option<u64>,
    pub(crate) is_complete: bool,
    pub(crate) told: Option<ResponseMetadata>,
}

impl Outcome {
    /// Returns the outcome of a response with a complete body of this length.
    pub(crate) fn of(response: &mut Response, content_bytes: u64) -> Self {
        let (status, told) = (response.status(), response.take_metadata());
        Self { status, content_bytes, received_bytes: None, is_complete: true, told }
    }
}

/// Status in access logs if the client did not wait for the response. Never sent. nginx uses the same number.
pub(crate) const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};
