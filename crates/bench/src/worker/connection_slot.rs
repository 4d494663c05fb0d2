//! A slot has at most one connection at a time. The slot takes requests and opens connections for these
//! requests, in any version of HTTP.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use thruway_net::Deadline;

use super::connection::{Connect, Ended, Handshake, Opened, WireProtocol};
use super::dispatch::Worker;
use super::plan::{NextStep, Phase, StartedRequest};
use super::streams::Streams;
use super::wire::Wire;
use crate::failure::{Failure, FailureKind};

pub(super) struct ConnectionSlot {
    pub(super) worker: Rc<Worker>,
    number: usize,
    pub(super) deadline: Deadline,
    /// Requests that must be sent again, before all others.
    again: VecDeque<StartedRequest>,
    /// Number of consecutive failed attempts to connect.
    failed_attempts: u32,
}

impl Worker {
    /// Runs connection slot `number` of this worker until the load ends. `first` is a connection that is
    /// already open, if there is one.
    pub async fn run_slot<C: Connect>(
        self: Rc<Self>,
        number: usize,
        connect: C,
        first: Option<C::Transport>,
    ) {
        if self.connection_options.is_http2 {
            self.run_slot_with::<C, Streams<C::Transport>>(number, connect, first).await;
        } else {
            self.run_slot_with::<C, Wire<C::Transport>>(number, connect, first).await;
        }
    }

    async fn run_slot_with<C: Connect, S: WireProtocol<C::Transport>>(
        self: Rc<Self>,
        number: usize,
        connect: C,
        first: Option<C::Transport>,
    ) {
        let mut slot = ConnectionSlot::new(self, number);
        let mut open = first.map(|transport| {
            slot.worker.record.borrow_mut().connections_opened += 1;
            S::new(transport, &slot.worker)
        });
        loop {
            let Some(protocol) = &mut open else {
                let Some(ticket) = slot.next_ticket().await else { return };
                open = slot.open(&connect, ticket).await;
                continue;
            };
            let ended = poll_fn(|cx| {
                slot.deadline.set_waker(cx.waker());
                let ended = protocol.poll(cx, &slot.worker, slot.number);
                slot.deadline.set(protocol.deadline(&slot.worker));
                ended
            });
            match ended.await {
                Ended::Over => return,
                Ended::Closed => open = None,
                Ended::Unhandled(again) => {
                    slot.worker.record.borrow_mut().sent_again += again.len() as u64;
                    slot.again = again;
                    open = None;
                }
            }
        }
    }
}

impl ConnectionSlot {
    pub(super) fn new(worker: Rc<Worker>, number: usize) -> Self {
        let deadline = worker.deadlines.register();
        Self { worker, number, deadline, again: VecDeque::new(), failed_attempts: 0 }
    }

    /// Returns the next request to send on a new connection, or `None` at the end of the load.
    pub(super) async fn next_ticket(&mut self) -> Option<StartedRequest> {
        if let Some(ticket) = self.again.pop_front() {
            return Some(ticket);
        }
        poll_fn(|cx| {
            self.deadline.set_waker(cx.waker());
            let now = self.worker.clock.now_exact();
            match self.worker.take(self.number, now, cx) {
                NextStep::Start(ticket) => Poll::Ready(Some(ticket)),
                NextStep::Wait => Poll::Pending,
                NextStep::Over => {
                    self.worker.note_exhausted(now);
                    Poll::Ready(None)
                }
            }
        })
        .await
    }

    /// Opens a connection for `ticket` and for the requests that must be sent again. If no connection can
    /// be opened, only the request `ticket` fails.
    async fn open<C: Connect, S: WireProtocol<C::Transport>>(
        &mut self,
        connect: &C,
        ticket: StartedRequest,
    ) -> Option<S> {
        let Some(outcome) = self.connect(connect, ticket).await else {
            let now = self.worker.clock.now_exact();
            self.worker.give_up(ticket, now);
            self.again.drain(..).for_each(|ticket| self.worker.give_up(ticket, now));
            return None;
        };
        match outcome {
            Ok(Opened { transport, handshake }) => {
                self.note_connected(handshake);
                let mut protocol = S::new(transport, &self.worker);
                protocol.ask(&self.worker, ticket);
                self.again.drain(..).for_each(|ticket| protocol.ask(&self.worker, ticket));
                Some(protocol)
            }
            Err(failure) => {
                let now = self.worker.clock.now_exact();
                self.worker.fail(ticket, now, &failure);
                self.back_off_from(now).await;
                None
            }
        }
    }

    /// Records an open connection.
    pub(super) fn note_connected(&mut self, handshake: Option<Handshake>) {
        self.failed_attempts = 0;
        self.worker.unconnected_since.set(None);
        self.worker.note_opened(handshake);
    }

    /// Opens a connection. Returns `None` if the load ended before the connection was open.
    pub(super) async fn connect<C: Connect>(
        &self,
        connect: &C,
        ticket: StartedRequest,
    ) -> Option<Result<Opened<C::Transport>, Failure>> {
        let end = ticket.started.max(self.worker.clock.now_exact()) + self.worker.connection_options.timeout;
        self.deadline.set(Some(end));
        let mut connecting = pin!(connect.connect());
        poll_fn(|cx| {
            self.deadline.set_waker(cx.waker());
            if let Poll::Ready(outcome) = connecting.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome.map_err(Failure::from)));
            }
            match self.worker.phase.get() {
                Phase::Over => Poll::Ready(None),
                _ if self.worker.clock.now_exact() >= end => {
                    Poll::Ready(Some(Err(Failure::of(FailureKind::ConnectTimedOut))))
                }
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Pauses after an attempt to connect that failed at `now`. Attempts without a pause would only measure how
    /// fast the server refuses.
    pub(super) async fn back_off_from(&mut self, now: Duration) {
        self.worker.unconnected_since.set(self.worker.unconnected_since.get().or(Some(now)));
        self.failed_attempts += 1;
        let pause = (PAUSE_MIN * (1 << self.failed_attempts.min(6))).min(PAUSE_MAX);
        let until = self.worker.clock.now_exact() + pause;
        self.deadline.set(Some(until));
        poll_fn(|cx| {
            self.deadline.set_waker(cx.waker());
            let is_running = self.worker.phase.get() == Phase::Running;
            if is_running && self.worker.clock.now_exact() < until { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
