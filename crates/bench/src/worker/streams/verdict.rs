//! What it means that there is no complete answer.

use std::io;

use h2::Reason;

use crate::failure::{Detail, Failure, FailureKind};

/// What is done about a request without an answer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Failed(Failure),
    /// The server has said that it has not looked at it, and goes in peace (RFC 9113 §6.8).
    Unhandled,
}

/// What `error` says of a request; `has_begun` is whether something of its answer had come.
pub(super) fn verdict(error: &h2::Error, has_begun: bool) -> Verdict {
    let Some(reason) = error.reason() else {
        return Verdict::Failed(Failure::of(broken_off(error.get_io(), has_begun)));
    };
    let kind = match reason {
        // What we have found ourselves.
        _ if !error.is_remote() => FailureKind::Malformed,
        Reason::NO_ERROR if error.is_go_away() => return Verdict::Unhandled,
        _ if error.is_go_away() => FailureKind::GoneAway,
        Reason::REFUSED_STREAM => FailureKind::StreamRefused,
        _ => FailureKind::StreamReset,
    };
    Verdict::Failed(Failure { kind, detail: Detail::Reason(reason) })
}

fn broken_off(error: Option<&io::Error>, has_begun: bool) -> FailureKind {
    match error.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted) => FailureKind::Reset,
        _ if has_begun => FailureKind::Incomplete,
        _ => FailureKind::Closed,
    }
}
