//! An HTTP/2 request that waits for the end of its response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};

use crate::failure::{Detail, Failure, FailureKind};
use crate::requests::{Answer, Expected};
use crate::worker::plan::StartedRequest;

/// A request with an incomplete response. Dropping this value resets the stream of the request.
pub(super) struct Exchange {
    ticket: StartedRequest,
    expected: Expected,
    stage: Stage,
}

enum Stage {
    ExpectHead(ResponseFuture),
    ExpectContent(RecvStream, Answer),
}

/// Result of a request.
pub(super) struct Finished {
    pub(super) ticket: StartedRequest,
    pub(super) expected: Expected,
    pub(super) outcome: Result<Answer, Broken>,
}

/// A response that failed before it was complete.
pub(super) struct Broken {
    pub(super) error: h2::Error,
    /// `true` if a part of the response arrived.
    pub(super) has_begun: bool,
}

impl Exchange {
    pub(super) const fn new(ticket: StartedRequest, expected: Expected, response: ResponseFuture) -> Self {
        Self { ticket, expected, stage: Stage::ExpectHead(response) }
    }

    pub(super) const fn started(&self) -> Duration {
        self.ticket.started
    }

    /// Gives up the request and resets its stream.
    pub(super) fn into_started_request(self) -> StartedRequest {
        self.ticket
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Broken>> {
        loop {
            match &mut self.stage {
                Stage::ExpectHead(response) => match ready!(Pin::new(response).poll(cx)) {
                    Ok(response) => {
                        let answer = self.expected.begin(response.status().as_u16());
                        self.stage = Stage::ExpectContent(response.into_body(), answer);
                    }
                    Err(error) => return Poll::Ready(Err(Broken { error, has_begun: false })),
                },
                Stage::ExpectContent(content, answer) => {
                    let outcome = ready!(poll_content(content, answer, cx));
                    let answer = std::mem::take(answer);
                    return Poll::Ready(outcome.map(|()| answer).map_err(broken_within));
                }
            }
        }
    }
}

const fn broken_within(error: h2::Error) -> Broken {
    Broken { error, has_begun: true }
}

/// Reads the body. Completes after the end of the body and its trailers.
fn poll_content(
    content: &mut RecvStream,
    answer: &mut Answer,
    cx: &mut Context<'_>,
) -> Poll<Result<(), h2::Error>> {
    while !content.is_end_stream() {
        let Some(data) = ready!(content.poll_data(cx)) else {
            ready!(content.poll_trailers(cx))?;
            break;
        };
        let data = data?;
        answer.take_content(&data);
        // An error means that the stream has ended. The next poll reports the reason.
        let _ = content.flow_control().release_capacity(data.len());
    }
    Poll::Ready(Ok(()))
}

impl Future for Exchange {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finished> {
        let outcome = ready!(self.poll_outcome(cx));
        Poll::Ready(Finished { ticket: self.ticket, expected: self.expected, outcome })
    }
}

/// Decision about a request that got no complete response.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Failed(Failure),
    /// The server has announced that it has not processed the request, and closes the connection without an
    /// error (RFC 9113 §6.8).
    Unhandled,
}

/// Decides if a request that ended with `error` has failed, or if the server has not processed it.
/// `has_begun` is `true` if a part of its response has arrived.
pub(super) fn verdict(error: &h2::Error, has_begun: bool) -> Verdict {
    let Some(reason) = error.reason() else {
        return Verdict::Failed(Failure::of(broken_off(error.get_io(), has_begun)));
    };
    let kind = match reason {
        // The client detected this error.
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
