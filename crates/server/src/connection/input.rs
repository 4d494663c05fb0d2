//! Reads and parses requests, and calls the handler.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_http1::{Error, RequestFacts, ServerEvent};
use thruway_message::{RequestHead, StatusCode};
use thruway_net::{Pipe, PooledBuffer, Transport};
use tokio::task::coop::has_budget_remaining;

use super::ending::Ending;
use super::exchange::{Exchange, panicked, poll_later};
use super::http1::{Connection, Input, Step};
use super::incoming::{IncomingContent, TooMuchToDiscard};
use super::log::{Log, Logged, RecordStart};
use super::service::Buffers;
use crate::handler::Answer;
use crate::request::{ContentError, Request, RequestContent};
use crate::response::Response;

impl<T: Transport> Connection<T> {
    /// Copies the unparsed bytes of the last iteration into the buffers of the worker.
    #[inline]
    pub(super) fn take_buffers(&mut self, buffers: &mut Buffers) {
        buffers.parsed = 0;
        buffers.index.forget_head();
        buffers.would_block = self.input == Input::Awaited && !self.transport.may_have_arrived();
        buffers.filled = self.unparsed.len();
        buffers.input[..buffers.filled].copy_from_slice(&self.unparsed);
        self.output.take_buffer(&mut buffers.output);
    }

    /// Copies the unparsed bytes out of the buffers of the worker.
    #[inline]
    pub(super) fn give_buffers_back(&mut self, buffers: &mut Buffers) {
        let left = buffers.unparsed();
        if left.is_empty() {
            if self.unparsed.capacity() > 0 {
                self.unparsed = PooledBuffer::default();
            }
        } else {
            if self.unparsed.capacity() == 0 {
                self.unparsed = PooledBuffer::take();
            }
            self.unparsed.clear();
            self.unparsed.extend_from_slice(left);
        }
        self.output.give_buffer_back(&mut buffers.output);
    }

    /// Returns `true` if the client has closed its sending side.
    #[inline]
    pub(super) fn is_input_ended(&self) -> bool {
        self.input == Input::Ended
    }

    /// Parses the buffered bytes. If they do not suffice, reads more bytes from the client.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        now: Duration,
    ) -> io::Result<Step> {
        let is_there_nothing =
            buffers.would_block && buffers.unparsed().is_empty() && self.incoming.is_none();
        if is_there_nothing || self.ending.is_due() {
            return Ok(Step::Waits);
        }
        let parsed = self.parse(cx, buffers, now);
        if parsed == Parsed::NeedsMore && self.is_input_ended() && !self.http1.is_finished() {
            self.handle_end_of_requests(buffers);
            return Ok(Step::Moved);
        }
        if parsed == Parsed::Some {
            return Ok(Step::Moved);
        }
        let Some(limit) = self.read_limit(buffers, parsed) else { return Ok(Step::Waits) };
        if buffers.would_block {
            return Ok(Step::Waits);
        }
        self.input = Input::Unknown;
        if let Some(step) = self.poll_fill_pipe(cx, buffers, now) {
            return step;
        }
        let step = self.poll_fill(cx, buffers, limit)?;
        if step == Step::Moved && !self.is_input_ended() {
            self.parse(cx, buffers, now);
        }
        Ok(step)
    }

    /// Reads at most `limit` bytes from the client into the buffers of the worker. Notes the end of the input.
    #[inline]
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        limit: usize,
    ) -> io::Result<Step> {
        self.input = Input::Unknown;
        buffers.compact();
        let end = buffers.input.len().min(buffers.filled.saturating_add(limit));
        match self.transport.poll_read(cx, &mut buffers.input[buffers.filled..end])? {
            Poll::Pending => {
                buffers.would_block = true;
                // If the task has used up its tokio budget, the socket may still have data, and tokio wakes
                // the task again.
                if has_budget_remaining() {
                    self.input = Input::Awaited;
                }
                return Ok(Step::Waits);
            }
            Poll::Ready(0) => self.input = Input::Ended,
            Poll::Ready(read) => buffers.filled += read,
        }
        Ok(Step::Moved)
    }

    /// Reads a part of a large body into a pipe, if the handler accepts pipes.
    fn poll_fill_pipe(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &Buffers,
        now: Duration,
    ) -> Option<io::Result<Step>> {
        let incoming = self.incoming.as_mut().filter(|incoming| incoming.wants_pipe())?;
        let left = self.http1.content_remaining().filter(|left| *left >= PIPED_BYTES_MIN)?;
        if !buffers.unparsed().is_empty() || !self.transport.splices() {
            return None;
        }
        let mut pipe = Pipe::take()?;
        let length = usize::try_from(left).unwrap_or(usize::MAX);
        Some(match self.transport.poll_fill(cx, &mut pipe, length) {
            Poll::Pending => Ok(Step::Waits),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(0)) => {
                self.input = Input::Ended;
                Ok(Step::Moved)
            }
            Poll::Ready(Ok(moved)) => {
                self.http1.skip_bytes(moved as u64);
                incoming.receive_pipe(pipe, &self.service.config.timeouts, now);
                self.note_content();
                Ok(Step::Moved)
            }
        })
    }

    /// Returns the maximum number of bytes to read, or `None` if nothing may be read now. While the parser is
    /// paused, the connection still reads a limited number of bytes, to detect that the client has left.
    fn read_limit(&self, buffers: &Buffers, parsed: Parsed) -> Option<usize> {
        match parsed {
            _ if self.is_input_ended() => None,
            Parsed::MustWait if self.incoming.is_some() => None,
            Parsed::MustWait => match READ_AHEAD_BYTES.saturating_sub(buffers.unparsed().len()) {
                0 => None,
                limit => Some(limit),
            },
            Parsed::Some | Parsed::NeedsMore => Some(usize::MAX),
        }
    }

    /// Parses requests and bodies and passes them to the handlers, as far as the limits allow.
    #[inline]
    pub(super) fn parse(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers, now: Duration) -> Parsed {
        self.service.handler.renew();
        let mut outcome = Parsed::NeedsMore;
        loop {
            if !self.may_parse(cx, buffers.unparsed(), now) {
                return if outcome == Parsed::Some { outcome } else { Parsed::MustWait };
            }
            // The parser can report the end of a body without further input bytes.
            let may_be_more = buffers.parsed != buffers.filled || self.incoming.is_some();
            if !may_be_more || !self.parse_one(cx, buffers, now) {
                return outcome;
            }
            outcome = Parsed::Some;
        }
    }

    /// Returns `true` if there is capacity for the next event: window space for a part of a body, or a free
    /// place in the queue for a request.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a call costs more than the checks, which run three times per request"
    )]
    fn may_parse(&mut self, cx: &mut Context<'_>, unparsed: &[u8], now: Duration) -> bool {
        let config = &self.service.config;
        if let Some(incoming) = &mut self.incoming {
            return incoming.poll_write_capacity(config.content_window_bytes, now, cx).is_ready();
        }
        let is_closed =
            self.ending.is_due() || self.http1.is_finished() || self.http1.awaits_tunnel_decision();
        if is_closed || !self.output.has_capacity(config.output_bytes) {
            return false;
        }
        if self.exchanges.is_empty() && self.streaming.is_none() {
            return true;
        }
        !self.guard.is_draining()
            && self.exchanges.len() < config.pipelined_requests
            && self.exchanges.iter().all(|exchange| exchange.is_safe)
            && is_safe_or_unknown(unparsed)
    }

    /// Parses and handles one event, such as a request head or a part of a body. Returns `false` if the event
    /// is incomplete.
    #[inline]
    fn parse_one(&mut self, cx: &mut Context<'_>, buffers: &mut Buffers, now: Duration) -> bool {
        let Buffers { input, parsed, filled, index, .. } = buffers;
        let all = &input[..*filled];
        let input = &all[*parsed..];
        let (event, used) = match self.http1.handle_input(input, index) {
            Ok(found) => found,
            Err(error) => {
                self.handle_error(error);
                return true;
            }
        };
        *parsed += used;
        let (bytes, rest) = input.split_at(used);
        match event {
            Some(ServerEvent::Request) => {
                self.timers.head_since = None;
                let (head, facts) = (index.request_head(bytes), index.request_facts());
                let mut rest = rest;
                // Further requests with the same head need no parsing.
                loop {
                    *parsed += self.handle_request(&head, facts, rest, cx, now);
                    let unparsed = &all[*parsed..];
                    if unparsed.is_empty() || self.incoming.is_some() || !self.may_parse(cx, unparsed, now) {
                        break;
                    }
                    let Some(used) = self.http1.repeat_request(unparsed, index) else { break };
                    *parsed += used;
                    rest = &unparsed[used..];
                }
            }
            Some(ServerEvent::Content(content)) => self.handle_content(content, now),
            Some(ServerEvent::EndOfContent) => {
                self.handlers_need_poll = true;
                if let Some(sender) = self.incoming.take().as_ref().and_then(IncomingContent::sender) {
                    sender.finish(index.field_lines(bytes));
                }
            }
            None => {
                if self.incoming.is_none() {
                    self.timers.head_since.get_or_insert(now);
                }
                return false;
            }
        }
        true
    }

    /// Calls the handler for a request, and responds with 500 if the handler panics. `after_head` contains
    /// the bytes that arrived after the head. Returns the length of the body if they contain the complete
    /// body, and otherwise 0.
    #[inline]
    fn handle_request(
        &mut self,
        head: &RequestHead<'_>,
        facts: &RequestFacts,
        after_head: &[u8],
        cx: &mut Context<'_>,
        now: Duration,
    ) -> usize {
        let whole =
            facts.body_length.bytes().and_then(|bytes| after_head.get(..usize::try_from(bytes).ok()?));
        let start = self.service.record_start(Some(head));
        // The handler's answer is not returned from this call, because that would copy it (decision 0008).
        let answer_request = || self.answer_request(head, facts, whole, start.as_ref(), cx, now);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(answer_request)) {
            if !std::mem::take(&mut self.is_handler_running) {
                resume_unwind(panic);
            }
            let log = start.as_ref().map(|start| self.service.keep(Logged::Parsed { head, start }));
            let (answer, interim) = (Answer::Now(panicked()), Vec::new());
            let is_safe = head.method.is_safe();
            self.exchanges.push_back(Exchange { facts: *facts, answer, interim, log, is_safe });
        }
        if let Some(start) = start {
            self.service.end_start(start);
        }
        whole.map_or(0, <[u8]>::len)
    }

    /// Calls the handler. Writes its response if the response is available and no earlier response is
    /// pending. `whole` is the body, if the whole body has arrived.
    #[inline]
    fn answer_request(
        &mut self,
        head: &RequestHead<'_>,
        facts: &RequestFacts,
        whole: Option<&[u8]>,
        start: Option<&RecordStart>,
        cx: &mut Context<'_>,
        now: Duration,
    ) {
        let arriving = if whole.is_some() {
            self.http1.skip_content();
            None
        } else {
            Some(self.expect_content(facts, now))
        };
        let mut answer = {
            let handler = self.service.handler.current();
            let mut request =
                Request::new(head, facts, whole.unwrap_or_default(), &self.info, self.guard.worker());
            request.set_proxies(self.service.config.trusted_proxies.at(self.info.client));
            request.set_trace(start.and_then(|start| start.trace.as_ref()));
            if let Some(content) = arriving {
                request.set_arriving(content);
            }
            self.is_handler_running = true;
            match self.answer_first(&request) {
                Some(response) => Answer::Now(response),
                None => handler.handle(&mut request),
            }
            // The end of the block drops the request, which discards its body unless the handler has taken the
            // body. A call of `drop` would copy the request first.
        };
        self.is_handler_running = false;
        let mut interim = Vec::new();
        if let Answer::Later(later) = &mut answer
            && let Poll::Ready(response) = poll_later(later, &self.service.interim_slot, &mut interim, cx)
        {
            answer = Answer::Now(response);
        }
        let logged = start.map(|start| Logged::Parsed { head, start });
        match &mut answer {
            Answer::Now(response)
                if self.exchanges.is_empty() && self.streaming.is_none() && interim.is_empty() =>
            {
                self.start_answer(response, facts, logged);
            }
            _ => {
                let (log, is_safe) = (logged.map(|logged| self.service.keep(logged)), head.method.is_safe());
                self.exchanges.push_back(Exchange { facts: *facts, answer, interim, log, is_safe });
            }
        }
    }

    /// Prepares to receive a body that has not completely arrived.
    fn expect_content(&mut self, facts: &RequestFacts, now: Duration) -> RequestContent {
        let (sender, content) = RequestContent::arriving(facts.body_length.bytes());
        self.incoming = Some(IncomingContent::new(sender, facts.expects_continue, now));
        content
    }

    /// Returns the response to a request that must not reach the handler. The status is 503 if there are too
    /// many connections, and 421 if the connection does not serve the scheme or host. Otherwise, the
    /// pre-handlers may respond.
    #[inline]
    fn answer_first(&self, request: &Request<'_>) -> Option<Response> {
        if self.guard.is_over_limit() {
            return Some(too_many_connections());
        }
        if request.is_misdirected() {
            return Some(misdirected());
        }
        self.service.answer_first(request)
    }

    fn handle_content(&mut self, content: &[u8], now: Duration) {
        self.note_content();
        let timeouts = &self.service.config.timeouts;
        let received =
            self.incoming.as_mut().map_or(Ok(()), |incoming| incoming.receive(content, timeouts, now));
        if let Err(TooMuchToDiscard) = received {
            self.incoming = None;
            self.end_after_output(Ending::Linger);
        }
    }

    /// Notes that a part of the body has arrived. The client is still sending, so it counts as active even if
    /// it does not read.
    fn note_content(&mut self) {
        self.handlers_need_poll = true;
        self.timers.stalled_since = None;
    }

    /// Called when the client has closed its sending side and all its data has been parsed.
    fn handle_end_of_requests(&mut self, buffers: &mut Buffers) {
        let outcome = self.http1.handle_end_of_input(buffers.unparsed());
        buffers.parsed = buffers.filled;
        self.timers.head_since = None;
        if outcome.is_err() && self.incoming.is_some() {
            self.fail_incoming(ContentError::Incomplete);
        }
    }

    /// Handles a protocol error of the client. The server ignores all later bytes.
    #[cold]
    fn handle_error(&mut self, error: Error) {
        self.timers.head_since = None;
        if self.incoming.is_some() {
            self.fail_incoming(ContentError::Malformed(error));
        } else {
            self.refuse(error.status(), error.message());
        }
    }

    /// Ends the arriving body with an error.
    #[cold]
    pub(super) fn fail_incoming(&mut self, error: ContentError) {
        if let Some(incoming) = self.incoming.take() {
            self.service.worker.count_client_fault();
            incoming.fail(error);
            self.handlers_need_poll = true;
        }
        self.abandon();
        if self.exchanges.is_empty() && self.streaming.is_none() {
            // The response to the request is already written, and the server was only discarding the
            // remaining body bytes.
            self.end_after_output(Ending::Linger);
        }
    }

    /// Stops parsing, although the client may still be sending.
    fn abandon(&mut self) {
        self.http1.abandon();
        self.is_abandoned = true;
    }

    /// Responds with an error to bytes that are not a valid request, after the responses to earlier requests.
    /// Then the connection ends.
    #[cold]
    pub(super) fn refuse(&mut self, status: StatusCode, reason: &'static str) {
        self.abandon();
        let response =
            Response::text(format_args!("{status} {}: {reason}\n", status.reason())).with_status(status);
        let log = self.service.record_start(None).map(|start| Box::new(Log { head: None, start }));
        self.exchanges.push_back(Exchange::refusal(response, log));
    }
}

/// Result of parsing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    /// An event was parsed and passed on.
    Some,
    /// More bytes are needed.
    NeedsMore,
    /// A limit is reached, so parsing must wait.
    MustWait,
}

#[cold]
pub(crate) fn too_many_connections() -> Response {
    Response::text("too many connections\n")
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .with_field("Retry-After", "5")
        .and_close()
}

/// Returns the response to a request for a scheme or host that this connection does not serve (RFC 9110
/// §15.5.20). The client may repeat the request on another connection.
#[cold]
pub(crate) fn misdirected() -> Response {
    Response::text("this scheme or host is not served on this connection\n")
        .with_status(StatusCode::MISDIRECTED_REQUEST)
}

/// Returns `true` if the next request has a safe method, or if too few of its bytes have arrived to know.
fn is_safe_or_unknown(unparsed: &[u8]) -> bool {
    SAFE_METHODS.iter().any(|method| {
        let length = method.len().min(unparsed.len());
        unparsed[..length] == method[..length]
    })
}

/// Safe methods of RFC 9110 §9.2.1.
const SAFE_METHODS: [&[u8]; 4] = [b"GET ", b"HEAD ", b"OPTIONS ", b"TRACE "];

/// Number of body bytes that must still be missing before the connection reads into a pipe. If fewer bytes
/// are missing, it reads them into its buffer.
const PIPED_BYTES_MIN: u64 = 64 << 10;

/// Maximum number of unparsed bytes that a connection buffers while parsing must wait. Large enough for the
/// next request. Small enough to buffer data of ten thousand clients in memory.
const READ_AHEAD_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use thruway_message::Method;

    use super::*;

    #[test]
    fn safe_method_check_on_bytes_agrees_with_method_type() {
        for name in ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "DELETE", "PATCH", "POST", "PUT", "GETS"] {
            let is_safe = Method::from_token(name.as_bytes()).unwrap().is_safe();
            assert_eq!(is_safe_or_unknown(format!("{name} /").as_bytes()), is_safe, "{name}");
            assert!(is_safe_or_unknown(b""));
        }
    }
}
