//! A virtual user: runs the iterations of a scenario one after the other, on one connection at a time.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use thruway_http1::ResponseTo;

use super::connection::{Connect, Opened};
use super::connection_slot::ConnectionSlot;
use super::dispatch::Worker;
use super::plan::{Answered, Phase, StartedRequest, StepRequest};
use super::user_connection::UserConnection;
use crate::failure::{Failure, FailureKind};
use crate::requests::{Received, Scenario, UserState};

struct User<C: Connect> {
    slot: ConnectionSlot,
    connect: C,
    scenario: Arc<Scenario>,
    state: UserState,
    connection: Option<UserConnection<C::Transport>>,
    /// The encoded request.
    request: Vec<u8>,
}

/// Outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    Expected,
    Failed,
    /// The load ended before the response.
    CutOff,
}

/// Outcome of one request of a step.
enum RequestOutcome {
    /// The step is finished.
    Finished(StepOutcome),
    /// The user follows a redirect with this status to this URL.
    Redirected(u16, String),
}

impl From<StepOutcome> for RequestOutcome {
    fn from(outcome: StepOutcome) -> Self {
        Self::Finished(outcome)
    }
}

/// Outcome of the exchange of a request and its response.
enum Exchange {
    Complete,
    Failed(Failure),
    CutOff,
}

/// Runs the virtual user in connection slot `number` of `worker` until the load ends. `first` is a connection that
/// is already open, if there is one.
pub(super) async fn run_user<C: Connect>(
    worker: Rc<Worker>,
    number: usize,
    connect: C,
    first: Option<C::Transport>,
    scenario: Arc<Scenario>,
) {
    let state = scenario.new_user((number * worker.share.workers + worker.share.worker) as u64);
    let connection = first.map(|transport| {
        worker.record.borrow_mut().connections_opened += 1;
        UserConnection::new(transport)
    });
    let slot = ConnectionSlot::new(worker, number);
    let mut user = User { slot, connect, scenario, state, connection, request: Vec::new() };
    while let Some(ticket) = user.slot.next_ticket().await {
        user.run_iteration(ticket).await;
    }
}

impl<C: Connect> User<C> {
    fn worker(&self) -> &Worker {
        &self.slot.worker
    }

    /// Runs the steps of an iteration, until a step fails.
    async fn run_iteration(&mut self, ticket: StartedRequest) {
        let steps = self.scenario.begin_iteration(&mut self.state, ticket.number);
        let mut step_ticket = ticket;
        let mut next = steps.start;
        while steps.contains(&next) {
            let index = next;
            let outcome = self.run_step(index, step_ticket).await;
            if outcome == StepOutcome::Failed {
                let now = self.worker().clock.now_exact();
                return self.worker().complete_iteration(ticket, now, false);
            }
            self.think(index).await;
            if outcome == StepOutcome::CutOff || !self.may_continue() {
                return self.worker().cut_off_iteration(ticket);
            }
            let now = self.worker().clock.now_exact();
            step_ticket = StartedRequest { number: ticket.number, intended: now, started: now };
            next = self.scenario.step_after(index, &mut self.state);
        }
        let now = self.worker().clock.now_exact();
        self.worker().complete_iteration(ticket, now, true);
    }

    /// Returns `true` if the load has not ended. A load with a number of iterations waits for all of them.
    fn may_continue(&self) -> bool {
        match self.worker().phase.get() {
            Phase::Running => true,
            Phase::Draining { .. } => self.worker().waits_for_all(),
            Phase::Over => false,
        }
    }

    /// Waits for the think time after a step. Ends early if the load ends.
    async fn think(&mut self, index: usize) {
        let Some(range) = self.scenario.step(index).think_time() else { return };
        let mut sleep = pin!(tokio::time::sleep(self.state.time_between(range)));
        self.slot.deadline.set(None);
        poll_fn(|cx| {
            self.slot.deadline.set_waker(cx.waker());
            if self.may_continue() { sleep.as_mut().poll(cx) } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Sends the request of a step, follows its redirects, and checks the last response.
    async fn run_step(&mut self, index: usize, ticket: StartedRequest) -> StepOutcome {
        let step = StepRequest { index, since: ticket.intended };
        let scenario = self.scenario.clone();
        let is_persistent = self.worker().connection_options.is_persistent;
        self.request.clear();
        let now = self.worker().clock.now_exact();
        let written = scenario.write(index, &mut self.state, is_persistent, now, &mut self.request);
        let to = match written {
            Ok(to) => to,
            Err(message) => {
                let failure = Failure::of(FailureKind::InvalidValue);
                self.worker().fail_step(step, ticket, now, &failure, None, message);
                return StepOutcome::Failed;
            }
        };
        let mut next = (ticket, to);
        let mut followed = 0;
        loop {
            match self.run_request(step, next.0, next.1, followed).await {
                RequestOutcome::Finished(outcome) => return outcome,
                RequestOutcome::Redirected(status, location) => {
                    let now = self.worker().clock.now_exact();
                    let ticket = StartedRequest { number: ticket.number, intended: now, started: now };
                    let redirect = (status, &*location);
                    let state = &mut self.state;
                    match scenario.redirect(index, state, redirect, is_persistent, now, &mut self.request) {
                        Ok(to) => next = (ticket, to),
                        Err(message) => {
                            let failure = Failure::of(FailureKind::InvalidValue);
                            self.worker().fail_step(step, ticket, now, &failure, None, message);
                            return StepOutcome::Failed;
                        }
                    }
                    if !self.may_continue() {
                        return self.cut_off_step(step, ticket, now);
                    }
                    followed += 1;
                }
            }
        }
    }

    /// Sends one request of a step. The user has followed `followed` redirects before.
    async fn run_request(
        &mut self,
        step: StepRequest,
        ticket: StartedRequest,
        to: ResponseTo,
        followed: u32,
    ) -> RequestOutcome {
        let scenario = self.scenario.clone();
        let is_persistent = self.worker().connection_options.is_persistent;
        if let Err(outcome) = self.ensure_connection(step, ticket).await {
            return outcome.into();
        }
        let mut received = scenario.receive(step.index, &mut self.state);
        let Some(mut connection) = self.connection.take() else { return StepOutcome::Failed.into() };
        connection.send(&self.request, to);
        let exchanged = self.exchange(&mut connection, ticket, &mut received).await;
        let now = self.worker().clock.now_exact();
        match exchanged {
            Exchange::Complete => {
                let answered = Answered {
                    status: Some(received.status),
                    sent_bytes: self.request.len() as u64,
                    received_bytes: connection.received_bytes(),
                    content_bytes: received.content_bytes,
                    is_event_stream: false,
                };
                self.connection = Some(connection).filter(|open| is_persistent && open.is_reusable());
                if let Some(location) =
                    received.redirect(followed, &mut self.state, now, self.slot.worker.date())
                {
                    self.worker().complete_redirect(step, ticket, now, &answered);
                    return RequestOutcome::Redirected(received.status, location);
                }
                self.finish_step(step, ticket, received, now, &answered).into()
            }
            Exchange::Failed(failure) => {
                let example = failure.kind.words().to_owned();
                self.worker().fail_step(step, ticket, now, &failure, None, example);
                StepOutcome::Failed.into()
            }
            Exchange::CutOff => self.cut_off_step(step, ticket, now).into(),
        }
    }

    fn finish_step(
        &mut self,
        step: StepRequest,
        ticket: StartedRequest,
        received: Received<'_>,
        now: Duration,
        answered: &Answered,
    ) -> StepOutcome {
        let date = self.slot.worker.date();
        let status = received.status;
        match received.finish(&mut self.state, now, date) {
            Ok(()) => {
                self.worker().complete_step(step, ticket, now, answered);
                StepOutcome::Expected
            }
            Err((failure, example)) => {
                self.worker().fail_step(step, ticket, now, &failure, Some(status), example);
                StepOutcome::Failed
            }
        }
    }

    /// Records a step that the end of the load has cut off.
    fn cut_off_step(&self, step: StepRequest, ticket: StartedRequest, now: Duration) -> StepOutcome {
        let worker = self.worker();
        if worker.is_open() || worker.waits_for_all() {
            let failure = Failure::of(FailureKind::Unanswered);
            worker.fail_step(step, ticket, now, &failure, None, failure.kind.words().to_owned());
        } else {
            worker.give_up(ticket, now);
        }
        StepOutcome::CutOff
    }

    /// Opens a connection if none is open, or if the server has closed the connection since the last response.
    async fn ensure_connection(
        &mut self,
        step: StepRequest,
        ticket: StartedRequest,
    ) -> Result<(), StepOutcome> {
        if self.connection.as_mut().is_some_and(UserConnection::is_usable) {
            return Ok(());
        }
        self.connection = None;
        let Some(outcome) = self.slot.connect(&self.connect, ticket).await else {
            let now = self.worker().clock.now_exact();
            return Err(self.cut_off_step(step, ticket, now));
        };
        match outcome {
            Ok(Opened { transport, handshake }) => {
                self.slot.note_connected(handshake);
                self.connection = Some(UserConnection::new(transport));
                Ok(())
            }
            Err(failure) => {
                let now = self.worker().clock.now_exact();
                let example = format!("{}: {}", failure.kind.words(), failure.detail);
                self.worker().fail_step(step, ticket, now, &failure, None, example);
                self.slot.back_off_from(now).await;
                Err(StepOutcome::Failed)
            }
        }
    }

    /// Sends the request, and receives the response.
    async fn exchange(
        &self,
        connection: &mut UserConnection<C::Transport>,
        ticket: StartedRequest,
        received: &mut Received<'_>,
    ) -> Exchange {
        let worker = self.worker();
        let end = ticket.started + worker.connection_options.timeout;
        self.slot.deadline.set(Some(end));
        poll_fn(|cx| {
            self.slot.deadline.set_waker(cx.waker());
            match connection.poll(cx, worker, received) {
                Poll::Ready(Ok(())) => Poll::Ready(Exchange::Complete),
                Poll::Ready(Err(failure)) => Poll::Ready(Exchange::Failed(failure)),
                Poll::Pending if worker.phase.get() == Phase::Over => Poll::Ready(Exchange::CutOff),
                Poll::Pending if worker.clock.now_exact() >= end => {
                    Poll::Ready(Exchange::Failed(Failure::of(FailureKind::TimedOut)))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}
