//! Writes responses in the order of their requests.

use std::error::Error;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_http1::{
    RequestFacts, ResponseBody, ResponseToWrite, write_continue, write_interim_response, write_response_head,
};
use thruway_message::{StatusCode, Version};
use thruway_net::Transport;

use super::ending::{AfterAnswer, Ending, PendingTunnel};
use super::exchange::Exchange;
use super::http1::{Connection, Step};
use super::log::{Logged, Outcome, TailRecord};
use super::output::{COPY_BYTES_MAX, Tail};
use super::streaming::{Next, StreamRecord, Streaming, log_failure, poll_meanwhile};
use crate::handler::Answer;
use crate::response::{InterimResponse, Piece, Response, Source};

impl<T: Transport> Connection<T> {
    /// Writes the available responses in the order of their requests, while the output buffer has space.
    #[inline]
    pub(super) fn poll_answers(&mut self, cx: &mut Context<'_>, now: Duration) -> Step {
        let mut step = Step::Waits;
        if std::mem::take(&mut self.handlers_need_poll) {
            self.exchanges.iter_mut().for_each(|exchange| exchange.poll(&self.service.interim_slot, cx));
        }
        while self.poll_answer(cx, now) == Step::Moved {
            step = Step::Moved;
        }
        if self.http1.is_finished() && self.exchanges.is_empty() && self.streaming.is_none() {
            self.end_after_output(Ending::Close);
        }
        step
    }

    /// Continues the current response. If no response is in progress, starts the response to the oldest
    /// request in the queue.
    #[inline]
    fn poll_answer(&mut self, cx: &mut Context<'_>, now: Duration) -> Step {
        if self.ending.is_due() {
            return Step::Waits;
        }
        if !self.output.has_capacity(self.service.config.output_bytes) {
            self.stream_meanwhile(cx);
            return Step::Waits;
        }
        if self.streaming.is_some() {
            return self.poll_streaming(cx);
        }
        if self.write_interim() == Step::Moved {
            return Step::Moved;
        }
        // A response that is not available yet stays in the queue, because moving it out and back would copy
        // it.
        if let Some(Exchange { answer: Answer::Later(_), .. }) = self.exchanges.front() {
            return self.write_continue(now);
        }
        let Some(Exchange { facts, answer: Answer::Now(mut response), log, .. }) = self.exchanges.pop_front()
        else {
            return Step::Waits;
        };
        self.start_answer(&mut response, &facts, log.map(Logged::Kept));
        Step::Moved
    }

    /// Writes the interim responses that the handler of the oldest queued request has sent. HTTP/1.0 clients
    /// get no interim responses (RFC 9110 §15.2).
    #[inline]
    fn write_interim(&mut self) -> Step {
        let Some(exchange) = self.exchanges.front_mut().filter(|exchange| !exchange.interim.is_empty())
        else {
            return Step::Waits;
        };
        let interim = std::mem::take(&mut exchange.interim);
        if exchange.facts.version != Version::Http10 {
            for InterimResponse { status, field_lines } in &interim {
                write_interim_response(self.output.bytes(), *status, field_lines);
            }
        }
        Step::Moved
    }

    /// Writes `100 (Continue)` if the handler waits for the request body and the client waits for this
    /// interim response.
    fn write_continue(&mut self, now: Duration) -> Step {
        let is_last = self.exchanges.len() == 1;
        if is_last && self.incoming.as_mut().is_some_and(|incoming| incoming.take_continue(now)) {
            write_continue(self.output.bytes());
            return Step::Moved;
        }
        Step::Waits
    }

    /// Writes the head of `response`. If the whole body is available, also writes the body. Takes the body
    /// and the metadata out of `response`, so the caller must not use `response` afterwards.
    #[inline]
    pub(super) fn start_answer(
        &mut self,
        response: &mut Response,
        facts: &RequestFacts,
        mut logged: Option<Logged<'_>>,
    ) {
        settle(response, facts);
        if let Some(tls) = &self.info.tls {
            tls.add_strict_transport_security(response);
        }
        let body = ResponseBody::for_response(facts, response.status(), response.content().length());
        let is_persistent = facts.is_persistent
            && !response.marks().is_last
            && body != ResponseBody::UntilClose
            && !self.is_last_answer()
            && self.can_content_be_finished();
        self.write_head(response, facts, body, is_persistent);
        // If the connection limit is exceeded, the server does not wait for the client before it closes the
        // connection.
        let has_asked_for_end = !facts.is_persistent && !self.is_request_limit_reached();
        let may_be_followed = !self.guard.is_over_limit() && !self.is_input_ended() && !has_asked_for_end;
        let mut after = AfterAnswer { is_persistent, may_be_followed, tunnel: None };
        // A small body stays in `response`, because taking it out would copy a struct (decision 0008).
        if let Some(bytes) = response.content().small_bytes(COPY_BYTES_MAX) {
            if body.has_content() {
                self.output.bytes().extend_from_slice(bytes);
            }
        } else {
            match response.take_content() {
                Source::Stream(content) if body.has_content() => {
                    let log = logged.map(|logged| self.service.keep(logged));
                    let record = StreamRecord { log, metadata: response.take_metadata() };
                    self.output.ends_with_connection = body == ResponseBody::UntilClose;
                    self.streaming =
                        Some(Box::new(Streaming::new(content, body, response.status(), after, record)));
                    return;
                }
                Source::Tunnel(handler) => {
                    // The byte counts of a tunnel are known only when the tunnel ends.
                    let record = logged.take().map(|logged| {
                        let outcome = Outcome::of(response, 0);
                        Box::new(TailRecord { log: self.service.keep(logged), outcome })
                    });
                    after.tunnel = Some(Box::new(PendingTunnel { handler, record }));
                }
                content if body.has_content() => self.put_large_content(content),
                _ => {}
            }
        }
        if let Some(logged) = logged {
            let content_bytes = if let ResponseBody::Bytes(bytes) = body { bytes } else { 0 };
            let outcome = Outcome::of(response, content_bytes);
            if self.output.has_tail() {
                self.tail_record = Some(Box::new(TailRecord { log: self.service.keep(logged), outcome }));
            } else {
                self.service.record(&self.info, logged, outcome);
            }
        }
        self.finish_answer(after);
    }

    #[inline]
    fn write_head(
        &mut self,
        response: &Response,
        facts: &RequestFacts,
        body: ResponseBody,
        is_persistent: bool,
    ) {
        if is_persistent && facts.version == Version::Http11 && self.write_prepared_head(response, body) {
            return;
        }
        let origin_fields = self.service.origin_fields.borrow();
        let head = ResponseToWrite {
            status: response.status(),
            field_lines: [origin_fields.lines_without(response.marks()), response.field_lines().bytes()],
            body,
            is_persistent,
            client_version: facts.version,
        };
        write_response_head(self.output.bytes(), &head);
    }

    /// Writes the head of `response` from the cache of prepared heads. Writes nothing and returns `false` if
    /// the headers are not constant, or if the length of the body is unknown.
    #[inline]
    fn write_prepared_head(&mut self, response: &Response, body: ResponseBody) -> bool {
        let ResponseBody::Bytes(bytes) = body else { return false };
        let Some(lines) = response.constant_lines() else { return false };
        let mut origin_fields = self.service.origin_fields.borrow_mut();
        let head = origin_fields.prepared(response.status(), lines);
        head.map(|head| head.write(self.output.bytes(), bytes)).is_some()
    }

    /// Adds a complete large body to the output, after the response head. The body is not copied.
    fn put_large_content(&mut self, content: Source) {
        match content {
            Source::Static(bytes) => self.output.set_tail(Tail::Bytes(Bytes::from_static(bytes))),
            // The buffer returns to the pool after the write.
            Source::Pooled(bytes) => self.output.set_tail(Tail::Bytes(Bytes::from_owner(bytes))),
            Source::Bytes(bytes) => self.output.set_tail(Tail::Bytes(bytes)),
            Source::File(range) => self.output.set_tail(Tail::File(range)),
            Source::Empty | Source::LeftOut(_) | Source::Stream(_) | Source::Tunnel(_) => {}
        }
    }

    /// Decides how the connection continues after a response that is completely in the output buffer.
    #[expect(
        clippy::inline_always,
        reason = "a call would cost more than the usual way through this function"
    )]
    #[inline(always)]
    fn finish_answer(&mut self, after: AfterAnswer) {
        if let Some(tunnel) = after.tunnel {
            self.end_after_output(Ending::PendingTunnel(tunnel));
        } else if !after.is_persistent {
            self.end_after_output(if after.may_be_followed { Ending::Linger } else { Ending::Close });
        } else {
            self.http1.decline_tunnel();
            if self.exchanges.is_empty()
                && let Some(incoming) = &mut self.incoming
            {
                incoming.discard(self.service.config.discard_bytes);
            }
        }
    }

    fn is_request_limit_reached(&self) -> bool {
        self.http1.request_count() == self.service.config.limits.requests_per_connection
    }

    /// Returns `true` if the current response is the last one on this connection. Either no further request
    /// can be parsed, or the server is shutting down.
    #[inline]
    fn is_last_answer(&self) -> bool {
        (self.http1.is_finished() || self.guard.is_draining()) && self.exchanges.is_empty()
    }

    /// Returns `true` if the connection can read another request after the body of the current request.
    /// Either the body is complete, or the handler is still reading it, or the unread bytes are few enough to
    /// discard.
    #[inline]
    fn can_content_be_finished(&mut self) -> bool {
        match &mut self.incoming {
            Some(incoming) if self.exchanges.is_empty() => {
                if incoming.is_abandoned() {
                    let remaining = self.http1.content_remaining().unwrap_or(0);
                    return !incoming.owes_continue && remaining <= self.service.config.discard_bytes;
                }
                if std::mem::take(&mut incoming.owes_continue) {
                    // The client waits for `100 (Continue)` before it sends the body. Tells the client to
                    // send the body now, because the handler may read it after the response has begun.
                    write_continue(self.output.bytes());
                }
                true
            }
            _ => true,
        }
    }

    /// Writes the next piece of the response body.
    fn poll_streaming(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(streaming) = &mut self.streaming else { return Step::Waits };
        let splices = self.transport.splices();
        let outcome = match streaming.poll_next_or_drain(self.guard.is_draining(), splices, cx) {
            Poll::Pending => return Step::Waits,
            Poll::Ready(Some(Ok(Next::Pipe(pipe)))) => streaming.write_pipe(pipe, &mut self.output),
            Poll::Ready(Some(Ok(Next::Piece(Piece::Data(data))))) => streaming.write(data, &mut self.output),
            Poll::Ready(Some(Ok(Next::Piece(Piece::Trailers(trailers))))) => {
                streaming.trailers = trailers;
                Ok(())
            }
            Poll::Ready(Some(Err(error))) => Err(error),
            Poll::Ready(None) => streaming.write_end(&mut self.output).map(|()| self.finish_streaming()),
        };
        if let Err(error) = outcome {
            self.fail_streaming(&*error);
        }
        Step::Moved
    }

    /// Calls `poll_meanwhile` of the response body, because the output buffer is full.
    fn stream_meanwhile(&mut self, cx: &mut Context<'_>) {
        let streaming = self.streaming.as_mut().filter(|streaming| !streaming.is_cut_short);
        if let Some(Err(error)) = streaming.map(|streaming| poll_meanwhile(&mut streaming.content, cx)) {
            self.fail_streaming(&*error);
        }
    }

    /// Ends a response that failed after its head was sent. The response must not look complete.
    fn fail_streaming(&mut self, error: &(dyn Error + Send + Sync + 'static)) {
        log_failure(error);
        let ends_with_connection = self.record_streaming(false).is_some_and(|of| of.ends_with_connection());
        self.end_after_output(if ends_with_connection { Ending::Reset } else { Ending::Close });
    }

    fn finish_streaming(&mut self) {
        if let Some(streaming) = self.record_streaming(true) {
            self.finish_answer(streaming.after);
        }
    }

    /// Ends the streaming of a body and records the result.
    fn record_streaming(&mut self, is_complete: bool) -> Option<Box<Streaming>> {
        let mut streaming = self.streaming.take()?;
        if let Some(log) = streaming.record.log.take() {
            let metadata = streaming.record.metadata.take();
            let content_bytes = streaming.sent_bytes.saturating_sub(self.output.tail_bytes());
            let status = streaming.status;
            let outcome = Outcome { status, content_bytes, received_bytes: None, is_complete, metadata };
            self.service.record(&self.info, Logged::Kept(log), outcome);
        }
        Some(streaming)
    }

    /// Records the response whose large body is the tail of the output. The response is incomplete if bytes
    /// of this body are unwritten.
    #[inline]
    pub(super) fn record_tail(&mut self) {
        if let Some(record) = self.tail_record.take() {
            let TailRecord { log, mut outcome } = *record;
            outcome.is_complete = !self.output.has_tail();
            outcome.content_bytes = outcome.content_bytes.saturating_sub(self.output.tail_bytes());
            self.service.record(&self.info, Logged::Kept(log), outcome);
        }
    }

    /// Records requests that will get no complete response, because the client has left or a timeout has
    /// expired.
    pub(super) fn record_unanswered(&mut self) {
        self.record_tail();
        self.record_streaming(false);
        if let Ending::PendingTunnel(over) = &mut self.ending
            && let Some(record) = over.record.take()
        {
            let TailRecord { log, outcome } = *record;
            let outcome = Outcome { is_complete: false, ..outcome };
            self.service.record(&self.info, Logged::Kept(log), outcome);
        }
        for exchange in self.exchanges.drain(..) {
            if let Some(log) = exchange.log {
                let outcome = Outcome {
                    status: self.service.unanswered(),
                    content_bytes: 0,
                    received_bytes: None,
                    is_complete: false,
                    metadata: None,
                };
                self.service.record(&self.info, Logged::Kept(log), outcome);
            }
        }
    }
}

/// Replaces a response that a handler must not return. Examples are an upgrade that the client has not
/// requested, and a final response with an interim status. The third example is a success response to
/// CONNECT without a tunnel.
#[inline]
pub(crate) fn settle(response: &mut Response, facts: &RequestFacts) {
    if response.has_tunnel() {
        if !facts.wants_tunnel {
            *response = response.to_upgrade_required();
        }
    } else if response.status().is_interim() {
        *response = Response::new(StatusCode::INTERNAL_SERVER_ERROR);
    } else if facts.is_connect() && response.status().is_success() {
        *response = Response::new(StatusCode::NOT_IMPLEMENTED);
    }
}
