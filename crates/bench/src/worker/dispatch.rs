//! Decides when the requests of a worker start, and when the worker ends its load.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Waker};
use std::time::Duration;

use thruway_http1::HeadIndex;
use thruway_net::{Clock, Deadlines};

use super::inactive_connections::InactiveConnections;
use super::plan::{ConnectionOptions, NextStep, Phase, Share, StartedRequest};
use super::streams::SpareBuffer;
use super::waiting_connections::WaitingConnections;
use crate::failure::{Failure, FailureKind};
use crate::lateness::Lateness;
use crate::record::{Interval, Record};
use crate::requests::Requests;
use crate::requests::ScenarioRecord;
use crate::schedule::Schedule;
use crate::stage_records::StageRecords;
use crate::stages::StageUnit;
use crate::stop::{Budget, Limit};

/// A worker: the common state of the connections of one thread.
pub struct Worker {
    pub(super) clock: Clock,
    pub(super) requests: Arc<dyn Requests>,
    pub(super) connection_options: ConnectionOptions,
    pub(super) share: Share,
    plan: RefCell<Plan>,
    /// Start of the measured time.
    pub(super) measured_from: Duration,
    pub(super) phase: Cell<Phase>,
    pub(super) record: RefCell<Record>,
    pub(super) intervals: RefCell<Intervals>,
    pub(super) shared_buffers: RefCell<SharedBuffers>,
    /// Read buffer that the HTTP/2 connections of the worker share.
    pub(super) spare: Rc<SpareBuffer>,
    pub(super) deadlines: Deadlines,
    next_tick: Cell<Duration>,
    /// Time of the first failed attempt to connect after the last successful attempt. `None` if the last
    /// attempt succeeded.
    pub(super) unconnected_since: Cell<Option<Duration>>,
    /// The task that sleeps until the next wake. The worker wakes this task if the next wake moves to an
    /// earlier time.
    timer_task: RefCell<Option<Waker>>,
}

struct Plan {
    schedule: Schedule,
    budget: Budget,
    taken: u64,
    waiting_connections: WaitingConnections,
    inactive_connections: InactiveConnections,
}

pub(super) struct Intervals {
    pub(super) current: Interval,
    /// Channel to the receiver of finished intervals.
    to: Option<Sender<Interval>>,
}

/// Buffers that all connections of a worker share. Only one connection uses these buffers at a time.
pub(super) struct SharedBuffers {
    pub(super) input: Box<[u8]>,
    pub(super) index: HeadIndex,
}

impl Worker {
    /// Creates a worker that starts its requests at `begin`.
    pub fn new(
        clock: Clock,
        requests: Arc<dyn Requests>,
        connection_options: ConnectionOptions,
        share: Share,
        begin: Duration,
        to: Option<Sender<Interval>>,
    ) -> Rc<Self> {
        let schedule = Schedule::new(&share.pace, begin, share.worker, share.workers);
        let budget = Budget::new(share.limit, begin + share.warm_up, share.worker, share.workers);
        let lateness = share.pace.window(share.limit).map(Lateness::new);
        let mut record = Record::of_open_loop(lateness);
        record.stages = share.pace.stages().cloned().map(StageRecords::new);
        record.scenario = requests
            .scenario()
            .map(|scenario| ScenarioRecord::new(scenario.step_names().len(), share.pace.stages().cloned()));
        Rc::new(Self {
            clock,
            requests,
            connection_options,
            plan: RefCell::new(Plan {
                schedule,
                budget,
                taken: 0,
                waiting_connections: WaitingConnections::default(),
                inactive_connections: InactiveConnections::default(),
            }),
            measured_from: begin + share.warm_up,
            phase: Cell::new(Phase::Running),
            record: RefCell::new(record),
            intervals: RefCell::new(Intervals { current: Interval::new(0), to }),
            shared_buffers: RefCell::new(SharedBuffers {
                input: vec![0; INPUT_BYTES].into_boxed_slice(),
                index: HeadIndex::with_capacity(FIELD_LINES),
            }),
            spare: Rc::default(),
            deadlines: Deadlines::new(),
            next_tick: Cell::new(begin),
            unconnected_since: Cell::new(None),
            timer_task: RefCell::new(None),
            share,
        })
    }

    /// Returns the results so far.
    pub fn record(&self) -> Record {
        let mut record = self.record.borrow().clone();
        if !self.is_open() {
            record.response = record.service.clone();
        }
        record
    }

    /// Returns the time at which the caller must call [`wake_due`](Self::wake_due). If an earlier call
    /// becomes necessary, wakes the task of `cx`.
    pub fn poll_next_wake(&self, cx: &Context<'_>) -> Duration {
        self.timer_task.replace(Some(cx.waker().clone()));
        let plan = self.plan.borrow();
        let due = plan.schedule.next().filter(|_| plan.waiting_connections.needs_timer());
        let end = match self.phase.get() {
            Phase::Running => plan.budget.end,
            Phase::Draining { until } => Some(until),
            Phase::Over => None,
        };
        let active = plan.inactive_connections.next();
        [due, end, active].into_iter().flatten().fold(self.next_tick.get(), Duration::min)
    }

    /// Does the work that is due: starts requests, ends requests that have timed out, and ends the load.
    pub fn wake_due(&self) {
        let now = self.clock.now_exact();
        if now >= self.next_tick.get() {
            self.tick(now);
        }
        if self.phase.get() == Phase::Running {
            let mut plan = self.plan.borrow_mut();
            plan.inactive_connections.wake_due(now);
            let end = plan.budget.end;
            let is_due = |next| next <= now && end.is_none_or(|end| next < end);
            let is_due = plan.schedule.next().is_some_and(is_due);
            // Even if this thread runs late, it still sends requests that were due before the end, as long
            // as a connection is free.
            let is_over =
                end.is_some_and(|end| now >= end) && !(is_due && plan.waiting_connections.has_waiting());
            if is_due && !is_over {
                plan.waiting_connections.wake_one();
            }
            drop(plan);
            if is_over {
                self.drain(now);
            }
        }
        if let Phase::Draining { until } = self.phase.get()
            && now >= until
        {
            self.phase.set(Phase::Over);
            self.deadlines.wake_all();
        }
    }

    /// Sends the last interval to its receiver.
    pub fn finish(&self) {
        let mut intervals = self.intervals.borrow_mut();
        let last = std::mem::replace(&mut intervals.current, Interval::new(0));
        intervals.send(last);
    }

    pub(super) fn is_open(&self) -> bool {
        self.share.pace.is_open()
    }

    /// Runs ten times a second, or more often with short request timeouts.
    fn tick(&self, now: Duration) {
        let tick = (self.connection_options.timeout / 10).clamp(TICK_MIN, TICK_MAX);
        // One tick is exactly at the start of the measured time, so that the thread can measure its
        // resource use from this time on.
        let until_measured = self.measured_from.checked_sub(now).filter(|left| !left.is_zero());
        self.next_tick.set(now + until_measured.map_or(tick, |left| left.min(tick)));
        self.deadlines.wake_overdue(now);
        let index = interval_at(now, self.measured_from, self.share.interval);
        self.intervals.borrow_mut().turn_to(index);
        let is_hopeless = self.unconnected_since.get().is_some_and(|since| now >= since + UNCONNECTED_MAX)
            && matches!(self.share.limit, Limit::Requests(_));
        match self.phase.get() {
            Phase::Running if self.share.stop.is_set() || is_hopeless => self.end_early(now, is_hopeless),
            Phase::Draining { until } if self.share.stop.is_set() => {
                self.phase.set(Phase::Draining { until: until.min(now + DRAIN_OF_STOPPED) });
            }
            _ => {}
        }
    }

    /// Ends the load at `now`, before its planned end.
    fn end_early(&self, now: Duration, is_given_up: bool) {
        let mut record = self.record.borrow_mut();
        record.is_given_up |= is_given_up;
        record.ended_early_at = Some(now);
        drop(record);
        self.plan.borrow_mut().budget.end_at(now);
        self.drain(now);
    }

    /// Returns `true` if the load has a fixed number of requests and waits for the response to each
    /// request.
    pub(super) fn waits_for_all(&self) -> bool {
        let is_ended_early = self.share.stop.is_set() || self.record.borrow().is_given_up;
        matches!(self.share.limit, Limit::Requests(_)) && !is_ended_early
    }

    /// Ends the load: no further requests start. Counts the requests that were due but were not sent.
    fn drain(&self, now: Duration) {
        let is_counted = self.waits_for_all();
        // A closed loop with a duration does not wait for responses at its end. A load with a fixed number
        // of requests waits for all responses.
        let drain_time = match (is_counted, self.is_open()) {
            (true, _) => self.completion_time_max() + TICK_MAX * 2,
            (false, true) if self.share.stop.is_set() => self.connection_options.drain.min(DRAIN_OF_STOPPED),
            (false, true) => self.connection_options.drain,
            (false, false) => Duration::ZERO,
        };
        // If no more requests will start, this function runs before the planned end.
        let end = self.plan.borrow().budget.end.map_or(now, |end| end.max(now));
        self.phase.set(Phase::Draining { until: end + drain_time });
        if !is_counted {
            self.count_unsent();
        }
        self.plan.borrow_mut().waiting_connections.wake_all();
        self.deadlines.wake_all();
        self.wake_timer();
    }

    /// Returns the longest time until a request in progress is complete or has timed out. With a scenario, returns
    /// the longest time of an iteration.
    fn completion_time_max(&self) -> Duration {
        let timeout = self.connection_options.timeout;
        self.requests.scenario().map_or(timeout, |scenario| scenario.duration_max(timeout))
    }

    /// Counts the requests that were due before the end but were not sent, because all connections were
    /// busy.
    fn count_unsent(&self) {
        let plan = &mut *self.plan.borrow_mut();
        let Some(end) = plan.budget.end else { return };
        while let Some(intended) = plan.schedule.next().filter(|next| *next < end) {
            plan.schedule.advance();
            if plan.budget.take(intended) {
                let ticket = StartedRequest { number: 0, intended, started: intended };
                self.fail(ticket, end, &Failure::of(FailureKind::Unsent));
            }
        }
    }

    /// Returns the next request for the connection slot `slot`, if this request may start now.
    pub(super) fn take(&self, slot: usize, now: Duration, cx: &Context<'_>) -> NextStep {
        if self.phase.get() != Phase::Running {
            return NextStep::Over;
        }
        let plan = &mut *self.plan.borrow_mut();
        plan.waiting_connections.leave(slot);
        if let Some(active_at) = self.inactive_until(slot, now) {
            plan.inactive_connections.park(slot, active_at, cx.waker());
            self.wake_timer();
            return NextStep::Wait;
        }
        let intended = plan.schedule.next().unwrap_or(now);
        if intended > now && plan.budget.end.is_none_or(|end| intended < end) {
            plan.waiting_connections.park(slot, cx.waker());
            self.wake_timer();
            return NextStep::Wait;
        }
        if !plan.budget.take(intended) {
            return NextStep::Over;
        }
        plan.schedule.advance();
        let number = plan.taken * self.share.workers as u64 + self.share.worker as u64;
        plan.taken += 1;
        if plan.waiting_connections.has_waiting() {
            if plan.schedule.next().is_some_and(|next| next <= now) {
                plan.waiting_connections.wake_one();
            }
            self.wake_timer();
        }
        NextStep::Start(StartedRequest { number, intended, started: now })
    }

    /// Returns the time at which the connection slot `slot` becomes active, if the stages of a closed loop do
    /// not allow it to send requests now. If the slot does not become active again, returns the end of the
    /// load.
    fn inactive_until(&self, slot: usize, now: Duration) -> Option<Duration> {
        let stages = self.share.pace.stages().filter(|stages| stages.unit() == StageUnit::Connections)?;
        // The connections of all workers become active in turn.
        let number = slot * self.share.workers + self.share.worker;
        let since = now.saturating_sub(self.measured_from);
        let active = stages.next_active(number, since).unwrap_or(stages.duration());
        (active > since).then(|| self.measured_from + active)
    }

    /// Ends the load of this worker, because it cannot send requests any more.
    pub(super) fn give_up_all(&self, now: Duration) {
        if self.phase.get() == Phase::Running {
            self.end_early(now, true);
        }
    }

    /// Records that no request is left.
    pub(super) fn note_exhausted(&self, now: Duration) {
        if self.phase.get() == Phase::Running {
            self.drain(now);
        }
    }

    fn wake_timer(&self) {
        if let Some(task) = self.timer_task.take() {
            task.wake();
        }
    }
}

impl Intervals {
    /// Begins interval number `index`.
    fn turn_to(&mut self, index: u64) {
        if index > self.current.index {
            let last = std::mem::replace(&mut self.current, Interval::new(index));
            self.send(last);
        }
    }

    fn send(&self, interval: Interval) {
        if let Some(to) = &self.to {
            // Ignores the error, because the receiver may be gone.
            let _ = to.send(interval);
        }
    }
}

fn interval_at(now: Duration, measured_from: Duration, interval: Duration) -> u64 {
    let since = now.saturating_sub(measured_from);
    u64::try_from(since.as_nanos() / interval.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// Maximum size of a read in bytes; larger than the largest header section.
const INPUT_BYTES: usize = 256 << 10;

/// Initial capacity for header fields. The capacity is enough for most responses, and grows if necessary.
const FIELD_LINES: usize = 64;

/// If no connection can be opened for this time, a load with a fixed number of requests ends. A load with a
/// duration does not need this limit.
const UNCONNECTED_MAX: Duration = Duration::from_secs(5);

/// Maximum time that a stopped open loop waits for its last responses.
const DRAIN_OF_STOPPED: Duration = Duration::from_secs(1);

const TICK_MAX: Duration = Duration::from_millis(100);
const TICK_MIN: Duration = Duration::from_millis(2);
