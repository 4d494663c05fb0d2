//! The record of a request, from when it is parsed until its answer is complete.

use std::time::Duration;

use thruway_message::{OwnedRequestHead, RequestHead, StatusCode};

use crate::response::{Response, Told};

/// What is kept of a request until it is recorded.
pub(crate) struct Log {
    /// `None` for octets that are no request.
    pub(crate) head: Option<OwnedRequestHead>,
    pub(crate) started: Duration,
}

/// A request that is to be recorded: as it was parsed, or as it was kept.
pub(crate) enum Logged<'a> {
    Parsed { head: &'a RequestHead<'a>, started: Duration },
    Kept(Box<Log>),
}

/// What will be recorded of an answer when its large content is written.
pub(super) struct TailRecord {
    pub(super) log: Box<Log>,
    pub(super) outcome: Outcome,
}

impl Logged<'_> {
    /// What is kept of it.
    pub(crate) fn keep(self) -> Box<Log> {
        match self {
            Self::Parsed { head, started } => {
                Box::new(Log { head: Some(OwnedRequestHead::from(*head)), started })
            }
            Self::Kept(log) => log,
        }
    }
}

/// How a request was answered.
pub(crate) struct Outcome {
    pub(crate) status: StatusCode,
    pub(crate) content_bytes: u64,
    pub(crate) received_bytes: Option<u64>,
    pub(crate) is_complete: bool,
    pub(crate) told: Option<Told>,
}

impl Outcome {
    /// That of a response with so much content, all of which is there.
    pub(crate) fn of(response: &mut Response, content_bytes: u64) -> Self {
        let (status, told) = (response.status(), response.take_told());
        Self { status, content_bytes, received_bytes: None, is_complete: true, told }
    }
}

/// What access logs say of a request whose client did not wait for the answer; never sent. The number is
/// nginx's.
pub(crate) const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};
