//! An HTTP/1.1 connection. Sends all requests that may start in one write. Parses responses directly in the
//! read buffer.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_http1::{self as http1, ClientConnection, ClientEvent, Limits};
use thruway_net::Transport;

use super::connection::{Ended, WireProtocol, poll_flush};
use super::dispatch::{SharedBuffers, Worker};
use super::plan::{Answered, NextStep, Phase, StartedRequest};
use crate::failure::{Detail, Failure, FailureKind};
use crate::requests::{Answer, Conversation, Done};

/// An HTTP/1.1 connection, and the requests in progress.
pub(super) struct Wire<T> {
    transport: T,
    http1: ClientConnection,
    /// Encoded requests. The bytes before the offset `written` have been sent.
    output: Vec<u8>,
    written: usize,
    /// Unparsed bytes of an incomplete response.
    kept: Vec<u8>,
    pending: VecDeque<Pending>,
    /// The current response, if its head has arrived.
    answer: Option<Answer>,
    /// Number of received bytes of the current response.
    answer_bytes: u64,
    /// State machine of the connection if its requests depend on each other.
    conversation: Option<Conversation>,
    requests: u64,
    /// After all responses have arrived, the client waits until this time for the server to close the
    /// connection. The side that closes first cannot reuse its port for a minute.
    closes_until: Option<Duration>,
}

#[derive(Clone, Copy)]
struct Pending {
    ticket: StartedRequest,
    request_bytes: u64,
    /// Bytes of the earlier responses to this request, if it consists of several messages.
    received_bytes: u64,
}

impl<T: Transport> WireProtocol<T> for Wire<T> {
    fn new(transport: T, worker: &Worker) -> Self {
        Self {
            transport,
            http1: ClientConnection::new(LIMITS),
            output: Vec::new(),
            written: 0,
            kept: Vec::new(),
            pending: VecDeque::with_capacity(worker.connection_options.pipeline),
            answer: None,
            answer_bytes: 0,
            conversation: worker.requests.conversation(),
            requests: 0,
            closes_until: None,
        }
    }

    fn deadline(&self, worker: &Worker) -> Option<Duration> {
        let timeout = worker.connection_options.timeout;
        self.pending.front().map(|pending| pending.ticket.started + timeout).or(self.closes_until)
    }

    /// Appends a request to the output.
    #[inline]
    fn ask(&mut self, worker: &Worker, ticket: StartedRequest) {
        let before = self.output.len();
        let to = match &self.conversation {
            None => worker.requests.write(ticket.number, &mut self.output),
            Some(conversation) => conversation.write(ticket.number, &mut self.output),
        };
        self.http1.expect_response(to, false);
        let request_bytes = (self.output.len() - before) as u64;
        self.pending.push_back(Pending { ticket, request_bytes, received_bytes: 0 });
        self.requests += 1;
    }

    fn poll(&mut self, cx: &mut Context<'_>, worker: &Worker, slot: usize) -> Poll<Ended> {
        let mut now = None;
        // Sends the bytes that the server did not accept in the last poll.
        if self.written > 0
            && let Err(error) = poll_flush(&mut self.transport, &mut self.output, &mut self.written, cx)
        {
            return Poll::Ready(self.break_off(worker, &error));
        }
        if let Poll::Ready(ended) = self.poll_answers(cx, worker, &mut now) {
            return Poll::Ready(ended);
        }
        let time = now.unwrap_or_else(|| worker.clock.now_exact());
        if let Some(ended) = self.check_time(worker, time) {
            return Poll::Ready(ended);
        }
        if let Some(ended) = self.refill(cx, worker, slot, time) {
            return Poll::Ready(ended);
        }
        match poll_flush(&mut self.transport, &mut self.output, &mut self.written, cx) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(self.break_off(worker, &error)),
        }
    }
}

impl<T: Transport> Wire<T> {
    /// Starts requests until the allowed number of requests is in progress.
    fn refill(&mut self, cx: &Context<'_>, worker: &Worker, slot: usize, now: Duration) -> Option<Ended> {
        let connection_options = worker.connection_options;
        let may_ask = connection_options.is_persistent || self.requests == 0;
        // In a closed loop, the next batch of requests starts when all requests of the previous batch are
        // answered.
        let is_fresh = self.requests == self.pending.len() as u64;
        let is_time = self.pending.is_empty() || is_fresh || worker.is_open();
        while may_ask && is_time && self.pending.len() < connection_options.pipeline {
            match worker.take(slot, now, cx) {
                NextStep::Start(ticket) => self.ask(worker, ticket),
                NextStep::Wait => return None,
                NextStep::Over => {
                    worker.note_exhausted(now);
                    return self.pending.is_empty().then_some(Ended::Over);
                }
            }
        }
        None
    }

    /// Ends the connection if the load is over, or if a timeout has expired.
    fn check_time(&mut self, worker: &Worker, now: Duration) -> Option<Ended> {
        if worker.phase.get() == Phase::Over {
            self.pending.drain(..).for_each(|pending| worker.give_up(pending.ticket, now));
            return Some(Ended::Over);
        }
        let deadline = self.deadline(worker)?;
        (now >= deadline)
            .then(|| self.fail(worker, now, &Failure::of(FailureKind::TimedOut), FailureKind::Abandoned))
    }

    /// Reads until no input is available, and parses the responses.
    fn poll_answers(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        now: &mut Option<Duration>,
    ) -> Poll<Ended> {
        let shared_buffers = &mut *worker.shared_buffers.borrow_mut();
        loop {
            let kept = self.kept.len();
            shared_buffers.input[..kept].copy_from_slice(&self.kept);
            let read = match self.transport.poll_read(cx, &mut shared_buffers.input[kept..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(self.end_of_input(worker)),
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(self.break_off(worker, &error)),
            };
            self.kept.clear();
            *now = None;
            match self.parse(worker, shared_buffers, kept, kept + read, now) {
                Ok(parsed) => self.kept.extend_from_slice(&shared_buffers.input[parsed..kept + read]),
                Err(http1::Error::UnexpectedMessage) if self.pending.is_empty() => {
                    worker.note_unrelated_bytes(worker.clock.now_exact());
                    return Poll::Ready(Ended::Closed);
                }
                Err(rule) => {
                    let now = worker.clock.now_exact();
                    let failure = Failure { kind: FailureKind::Malformed, detail: Detail::Rule(rule) };
                    return Poll::Ready(self.fail(worker, now, &failure, FailureKind::Abandoned));
                }
            }
            if self.pending.is_empty() && !worker.connection_options.is_persistent {
                let now = *now.get_or_insert_with(|| worker.clock.now_exact());
                self.closes_until.get_or_insert(now + CLOSE_TIMEOUT);
            } else if !self.http1.is_persistent() && self.answer.is_none() {
                return Poll::Ready(self.announced_end(worker));
            }
        }
    }

    /// Parses the input before the offset `filled`. Does not count the bytes before the offset `kept`,
    /// because they were counted when they arrived. Returns the offset of the first unparsed byte.
    #[inline]
    fn parse(
        &mut self,
        worker: &Worker,
        shared_buffers: &mut SharedBuffers,
        kept: usize,
        filled: usize,
        now: &mut Option<Duration>,
    ) -> Result<usize, http1::Error> {
        let mut parsed = 0;
        let mut counted = kept;
        loop {
            let input = &shared_buffers.input[parsed..filled];
            let (event, used) = self.http1.handle_input(input, &mut shared_buffers.index)?;
            let head = &input[..used];
            parsed += used;
            match event {
                None => {
                    self.answer_bytes += (filled - counted) as u64;
                    return Ok(parsed);
                }
                Some(ClientEvent::Interim) => {}
                Some(ClientEvent::Tunnel) => return Err(http1::Error::UnexpectedMessage),
                Some(ClientEvent::Response(length)) => {
                    let head = shared_buffers.index.response_head(head);
                    self.begin_answer(worker, head.status.as_u16());
                    if let Some(conversation) = &mut self.conversation {
                        conversation.begin_answer(head.status.as_u16(), head.field_lines);
                    }
                    if length != http1::BodyLength::NONE {
                        continue;
                    }
                    self.count(parsed, &mut counted);
                    self.end_answer(worker, now);
                }
                Some(ClientEvent::Content(content)) => {
                    if let Some(answer) = &mut self.answer {
                        answer.take_content(content);
                    }
                    if let Some(conversation) = &mut self.conversation {
                        conversation.take_content(content);
                    }
                }
                Some(ClientEvent::EndOfContent) => {
                    self.count(parsed, &mut counted);
                    self.end_answer(worker, now);
                }
            }
        }
    }

    /// Counts the bytes of the current response before the offset `parsed`.
    #[inline]
    const fn count(&mut self, parsed: usize, counted: &mut usize) {
        self.answer_bytes += parsed.saturating_sub(*counted) as u64;
        *counted = parsed;
    }

    #[inline]
    fn begin_answer(&mut self, worker: &Worker, status: u16) {
        if let Some(pending) = self.pending.front() {
            self.answer = Some(worker.requests.expected(pending.ticket.number).begin(status));
        }
    }

    /// Checks and records a complete response. All responses in one read get the same end time.
    #[inline]
    fn end_answer(&mut self, worker: &Worker, now: &mut Option<Duration>) {
        let answer_bytes = std::mem::take(&mut self.answer_bytes);
        let (Some(mut answer), Some(pending)) = (self.answer.take(), self.pending.pop_front()) else {
            return;
        };
        let pending = Pending { received_bytes: pending.received_bytes + answer_bytes, ..pending };
        let judged = match &mut self.conversation {
            None => {
                let outcome = worker.requests.expected(pending.ticket.number).judge(&mut answer);
                Some(Done { status: answer.status, is_event_stream: false, outcome })
            }
            Some(conversation) => conversation.end_answer(pending.ticket.number),
        };
        let Some(done) = judged else { return self.go_on(pending) };
        let now = *now.get_or_insert_with(|| worker.clock.now_exact());
        let Done { status, is_event_stream, outcome } = done;
        match outcome {
            Ok(()) => {
                let Pending { ticket, request_bytes: sent_bytes, received_bytes } = pending;
                let content_bytes = answer.content_bytes;
                let status = Some(status);
                let answered =
                    Answered { status, sent_bytes, received_bytes, content_bytes, is_event_stream };
                worker.complete(ticket, now, &answered);
            }
            Err(failure) => worker.complete_unexpected(pending.ticket, now, status, &failure),
        }
    }

    /// Sends the next message of a request that consists of several messages.
    fn go_on(&mut self, mut pending: Pending) {
        let Some(conversation) = &self.conversation else { return };
        let before = self.output.len();
        let to = conversation.write(pending.ticket.number, &mut self.output);
        self.http1.expect_response(to, false);
        pending.request_bytes += (self.output.len() - before) as u64;
        self.pending.push_front(pending);
    }

    /// Handles the announcement of the server that it processes no more requests on this connection.
    fn announced_end(&mut self, worker: &Worker) -> Ended {
        if self.conversation.as_ref().is_some_and(Conversation::is_in_progress) {
            let now = worker.clock.now_exact();
            return self.fail(worker, now, &Failure::of(FailureKind::Closed), FailureKind::Closed);
        }
        let again: VecDeque<StartedRequest> = self.pending.drain(..).map(|pending| pending.ticket).collect();
        if again.is_empty() { Ended::Closed } else { Ended::Unhandled(again) }
    }

    /// Handles the end of the input: the server has closed its side of the connection.
    fn end_of_input(&mut self, worker: &Worker) -> Ended {
        let now = worker.clock.now_exact();
        if self.pending.is_empty() {
            return Ended::Closed;
        }
        if self.http1.handle_end_of_input(&self.kept) == Ok(true) {
            // A body without a length ends with the connection (RFC 9112 §6.3 rule 8).
            self.end_answer(worker, &mut Some(now));
            return self.announced_end(worker);
        }
        let kind = if self.answer_bytes > 0 { FailureKind::Incomplete } else { FailureKind::Closed };
        self.fail(worker, now, &Failure::of(kind), FailureKind::Closed)
    }

    #[cold]
    fn break_off(&mut self, worker: &Worker, error: &io::Error) -> Ended {
        let now = worker.clock.now_exact();
        let kind = match error.kind() {
            // A write failed because the server had already closed the connection.
            io::ErrorKind::BrokenPipe if self.answer_bytes == 0 => FailureKind::Closed,
            _ => FailureKind::Reset,
        };
        self.fail(worker, now, &Failure::of(kind), kind)
    }

    /// Ends the connection. The first request in progress fails with `failure`, and the later requests fail
    /// with the kind `behind`.
    #[cold]
    fn fail(&mut self, worker: &Worker, now: Duration, failure: &Failure, behind: FailureKind) -> Ended {
        if let Some(first) = self.pending.pop_front() {
            worker.fail(first.ticket, now, failure);
        }
        self.pending.drain(..).for_each(|pending| worker.fail(pending.ticket, now, &Failure::of(behind)));
        Ended::Closed
    }
}

/// Maximum time for a server to close a connection after a request with `Connection: close`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Limits of responses. Bodies are not stored, so they may have any size.
pub(super) const LIMITS: Limits = Limits {
    request_target_bytes: 8 << 10,
    header_section_bytes: 64 << 10,
    field_lines: 1024,
    content_bytes: u64::MAX,
    chunk_extension_bytes: 64 << 10,
    trailer_section_bytes: 32 << 10,
    interim_responses: 1024,
    requests_per_connection: 0,
};
