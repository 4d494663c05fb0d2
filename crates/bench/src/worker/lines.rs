//! Sends requests as lines over a pair of pipes. Sends all requests that may start in one write. Responses
//! may arrive in any order, so the worker matches them by their ids.
//!
//! A load has one pair of pipes. If the pipes close, the load ends.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use thruway_net::Transport;

use super::connection::poll_flush;
use super::dispatch::Worker;
use super::plan::{Answered, NextStep, Phase, StartedRequest};
use crate::failure::{Failure, FailureKind};
use crate::requests::{Conversation, MESSAGE_BYTES_MAX, Reading, read};

/// A pair of pipes, and the requests in progress.
struct Lines<'w, T> {
    worker: &'w Worker,
    transport: T,
    conversation: Conversation,
    /// Encoded requests. The bytes before the offset `written` have been sent.
    output: Vec<u8>,
    written: usize,
    /// The received part of an incomplete line.
    kept: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Ids of failed requests. Late responses to these requests are ignored.
    late: VecDeque<u64>,
    /// Number of timeouts since the last response.
    timeouts: u32,
}

#[derive(Clone, Copy)]
struct Pending {
    id: u64,
    ticket: StartedRequest,
    request_bytes: u64,
}

/// Runs a pair of pipes until the load ends. If the pipes close, the load ends too.
pub(super) async fn drive_lines<T: Transport>(worker: Rc<Worker>, transport: T, conversation: Conversation) {
    let deadline = worker.deadlines.register();
    worker.record.borrow_mut().connections_opened += 1;
    let pending = VecDeque::with_capacity(worker.connection_options.pipeline);
    let mut lines = Lines {
        worker: &worker,
        transport,
        conversation,
        output: Vec::new(),
        written: 0,
        kept: Vec::new(),
        pending,
        late: VecDeque::new(),
        timeouts: 0,
    };
    poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        let ended = lines.poll(cx);
        deadline.set(lines.deadline());
        ended
    })
    .await;
}

impl<T: Transport> Lines<'_, T> {
    fn deadline(&self) -> Option<Duration> {
        // Responses may arrive in any order. The remaining requests keep their order, so the first request is
        // the oldest.
        self.pending.front().map(|oldest| oldest.ticket.started + self.worker.connection_options.timeout)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut now = None;
        if self.written > 0
            && let Err(error) = poll_flush(&mut self.transport, &mut self.output, &mut self.written, cx)
        {
            return self.end(kind_of(&error));
        }
        if let Poll::Ready(kind) = self.poll_answers(cx, &mut now) {
            return self.end(kind);
        }
        let time = now.unwrap_or_else(|| self.worker.clock.now_exact());
        if self.worker.phase.get() == Phase::Over {
            self.pending.drain(..).for_each(|pending| self.worker.give_up(pending.ticket, time));
            return Poll::Ready(());
        }
        self.give_up_overdue(time);
        if self.timeouts >= TIMEOUTS_MAX {
            return self.end(FailureKind::Abandoned);
        }
        if self.refill(cx, time) {
            return Poll::Ready(());
        }
        match poll_flush(&mut self.transport, &mut self.output, &mut self.written, cx) {
            Ok(()) => Poll::Pending,
            Err(error) => self.end(kind_of(&error)),
        }
    }

    /// Starts requests until the allowed number of requests is in progress. Returns `true` if the load is
    /// over.
    fn refill(&mut self, cx: &Context<'_>, now: Duration) -> bool {
        while self.pending.len() < self.worker.connection_options.pipeline {
            match self.worker.take(0, now, cx) {
                NextStep::Start(ticket) => self.ask(ticket),
                NextStep::Wait => return false,
                NextStep::Over => {
                    self.worker.note_exhausted(now);
                    return self.pending.is_empty();
                }
            }
        }
        false
    }

    #[inline]
    fn ask(&mut self, ticket: StartedRequest) {
        let before = self.output.len();
        let id = self.conversation.write_line(ticket.number, &mut self.output);
        let request_bytes = (self.output.len() - before) as u64;
        self.pending.push_back(Pending { id, ticket, request_bytes });
    }

    /// Reads until no input is available. Returns the reason if the pipes cannot be used any more.
    fn poll_answers(&mut self, cx: &mut Context<'_>, now: &mut Option<Duration>) -> Poll<FailureKind> {
        let worker = self.worker;
        let shared_buffers = &mut *worker.shared_buffers.borrow_mut();
        loop {
            let read = match self.transport.poll_read(cx, &mut shared_buffers.input) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) if self.kept.is_empty() => return Poll::Ready(FailureKind::Closed),
                Poll::Ready(Ok(0)) => return Poll::Ready(FailureKind::Incomplete),
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(kind_of(&error)),
            };
            // All responses in one read get the same end time.
            let time = worker.clock.now_exact();
            *now = Some(time);
            self.take_lines(&shared_buffers.input[..read], time);
            if self.kept.len() > MESSAGE_BYTES_MAX {
                return Poll::Ready(FailureKind::Malformed);
            }
        }
    }

    #[inline]
    fn take_lines(&mut self, mut input: &[u8], now: Duration) {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (line, rest) = input.split_at(end + 1);
            if self.kept.is_empty() {
                self.take_line(line, now);
            } else {
                self.kept.extend_from_slice(line);
                let line = std::mem::take(&mut self.kept);
                self.take_line(&line, now);
                self.kept = line;
                self.kept.clear();
            }
            input = rest;
        }
        self.kept.extend_from_slice(input);
    }

    #[inline]
    fn take_line(&mut self, line: &[u8], now: Duration) {
        match read(line) {
            Reading::Response { id: Some(id), outcome } => self.take_response(id, outcome, line.len(), now),
            // An error without an id refers to a message that the server could not parse. The error counts
            // for the oldest request, because any request may have caused it.
            Reading::Response { id: None, outcome: Err(failure) } => self.fail_oldest(&failure, now),
            Reading::Response { id: None, .. } => self.fail_oldest(&Failure::of(FailureKind::WrongId), now),
            Reading::Other => {}
            Reading::NotJsonRpc if line.trim_ascii().is_empty() => {}
            Reading::NotJsonRpc => self.fail_oldest(&Failure::of(FailureKind::NotAResponse), now),
        }
    }

    #[inline]
    fn take_response(&mut self, id: u64, outcome: Result<(), Failure>, bytes: usize, now: Duration) {
        // The search usually ends at the first request, because most servers respond in order.
        let place = self.pending.iter().position(|pending| pending.id == id);
        let Some(pending) = place.and_then(|place| self.pending.remove(place)) else {
            if let Some(place) = self.late.iter().position(|late| *late == id) {
                self.late.remove(place);
            } else {
                self.fail_oldest(&Failure::of(FailureKind::WrongId), now);
            }
            return;
        };
        self.timeouts = 0;
        match outcome {
            Ok(()) => {
                let answered = Answered {
                    status: None,
                    sent_bytes: pending.request_bytes,
                    received_bytes: bytes as u64,
                    content_bytes: bytes as u64,
                    is_event_stream: false,
                };
                self.worker.complete(pending.ticket, now, &answered);
            }
            Err(failure) => self.worker.fail(pending.ticket, now, &failure),
        }
    }

    /// Records a failure of the request that has waited longest.
    #[cold]
    fn fail_oldest(&mut self, failure: &Failure, now: Duration) {
        if let Some(oldest) = self.pending.pop_front() {
            self.worker.fail(oldest.ticket, now, failure);
            self.note_late(oldest.id);
        }
    }

    fn note_late(&mut self, id: u64) {
        if self.late.len() == LATE_MAX {
            self.late.pop_front();
        }
        self.late.push_back(id);
    }

    /// Records a failure for each request that has timed out. The pipes stay in use, because other
    /// responses may still arrive.
    fn give_up_overdue(&mut self, now: Duration) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        self.timeouts += 1;
        let started_after = now.saturating_sub(self.worker.connection_options.timeout);
        let (overdue, others): (VecDeque<_>, VecDeque<_>) =
            self.pending.drain(..).partition(|pending| pending.ticket.started <= started_after);
        self.pending = others;
        for pending in overdue {
            self.worker.fail(pending.ticket, now, &Failure::of(FailureKind::TimedOut));
            self.note_late(pending.id);
        }
    }

    /// Stops using the pipes: all requests in progress fail, and no further requests start.
    #[cold]
    fn end(&mut self, kind: FailureKind) -> Poll<()> {
        let now = self.worker.clock.now_exact();
        if self.worker.phase.get() == Phase::Over {
            self.pending.drain(..).for_each(|pending| self.worker.give_up(pending.ticket, now));
            return Poll::Ready(());
        }
        // At most one response is incomplete, so only the first request fails as incomplete.
        let mut kind = kind;
        for pending in self.pending.drain(..) {
            self.worker.fail(pending.ticket, now, &Failure::of(kind));
            if kind == FailureKind::Incomplete {
                kind = FailureKind::Closed;
            }
        }
        self.worker.give_up_all(now);
        Poll::Ready(())
    }
}

fn kind_of(error: &io::Error) -> FailureKind {
    match error.kind() {
        io::ErrorKind::BrokenPipe => FailureKind::Closed,
        _ => FailureKind::Reset,
    }
}

/// Number of consecutive timeouts after which the worker ends the load.
const TIMEOUTS_MAX: u32 = 3;

/// Maximum number of ids in `late`.
const LATE_MAX: usize = 4096;
