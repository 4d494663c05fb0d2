//! A request on a stream, from when it is sent until its answer is complete.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::RecvStream;
use h2::client::ResponseFuture;

use super::super::Ticket;
use crate::requests::{Answer, Expected};

/// A request whose answer is not complete. When it is dropped, its stream is reset.
pub(super) struct Exchange {
    ticket: Ticket,
    expected: Expected,
    stage: Stage,
}

enum Stage {
    ExpectHead(ResponseFuture),
    ExpectContent(RecvStream, Answer),
}

/// What became of a request.
pub(super) struct Finished {
    pub(super) ticket: Ticket,
    pub(super) expected: Expected,
    pub(super) outcome: Result<Answer, Broken>,
}

/// An answer that will not be complete.
pub(super) struct Broken {
    pub(super) error: h2::Error,
    /// Whether something of it had come.
    pub(super) has_begun: bool,
}

impl Exchange {
    pub(super) const fn new(ticket: Ticket, expected: Expected, response: ResponseFuture) -> Self {
        Self { ticket, expected, stage: Stage::ExpectHead(response) }
    }

    pub(super) const fn started(&self) -> Duration {
        self.ticket.started
    }

    /// Gives it up.
    pub(super) fn into_ticket(self) -> Ticket {
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

/// Ready when the content and what may stand behind it is complete.
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
        // Fails if the stream has ended, which is told next.
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
