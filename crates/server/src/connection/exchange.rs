//! A request that waits for its response.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use thruway_http1::{BodyLength, RequestFacts, ResponseTo};
use thruway_message::{StatusCode, Version};

use super::log::Log;
use crate::handler::{Answer, Later};
use crate::response::{InterimResponse, InterimSlot, Response};

/// A request in the queue of a connection. It does not contain the bytes of the request.
pub(super) struct Exchange {
    pub(super) facts: RequestFacts,
    pub(super) answer: Answer,
    /// Interim responses to write before the final response.
    pub(super) interim: Vec<InterimResponse>,
    /// Data for the record of the request. `None` if the server records no requests.
    pub(super) log: Option<Box<Log>>,
    /// `true` if the method is safe, so that other safe requests may run at the same time (RFC 9112 §9.3.2).
    pub(super) is_safe: bool,
}

impl Exchange {
    /// Returns a queue entry with the error `response`, for received bytes that are not a valid request.
    pub(super) fn refusal(response: Response, log: Option<Box<Log>>) -> Self {
        Self { facts: REFUSED, answer: Answer::Now(response), interim: Vec::new(), log, is_safe: false }
    }

    /// Polls the future of the response, if the response is not available yet.
    pub(super) fn poll(&mut self, slot: &InterimSlot, cx: &mut Context<'_>) {
        if let Answer::Later(later) = &mut self.answer
            && let Poll::Ready(response) = poll_later(later, slot, &mut self.interim, cx)
        {
            self.answer = Answer::Now(response);
        }
    }
}

/// Polls the future of a response. If the future panics, returns a 500 response. Appends the interim
/// responses that the handler sends during the poll to `interim`.
pub(crate) fn poll_later(
    later: &mut Later,
    slot: &InterimSlot,
    interim: &mut Vec<InterimResponse>,
    cx: &mut Context<'_>,
) -> Poll<Response> {
    slot.collect(interim, || match catch_unwind(AssertUnwindSafe(|| later.as_mut().poll(cx))) {
        Ok(polled) => polled,
        Err(_) => Poll::Ready(panicked()),
    })
}

/// Returns the 500 response to a request after its handler has panicked. The panic hook has already printed
/// the message.
#[cold]
pub(crate) fn panicked() -> Response {
    Response::text("internal error\n").with_status(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Facts that the server assumes if the received bytes are not a valid request. The client gets an HTTP/1.1
/// response, and the connection closes.
const REFUSED: RequestFacts = RequestFacts {
    version: Version::Http11,
    response_to: ResponseTo::Other,
    body_length: BodyLength::NONE,
    is_persistent: false,
    expects_continue: false,
    wants_tunnel: false,
};
