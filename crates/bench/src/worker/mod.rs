//! One thread's part of a load: what its connections share.
//!
//! A worker is polled from outside and knows no runtime: [`Worker::wake_due`] is called when the time that
//! [`Worker::poll_next_wake`] tells has come, [`Worker::lane`] makes the futures of its connections, and all of them end by
//! themselves. Whoever has a clock by hand and transports in memory can drive it as well as a thread with sockets.
//!
//! ```text
//! take a request ──▶ connect, if need be ──▶ write ──▶ read the answer ──▶ record ──▶ (again)
//!   schedule: now, or when one is due       lane, wire                     record
//! ```

// who waits for what
mod parking;
mod timer;

// a connection
mod flush;
mod lane;
mod wire;
mod streams;
mod lines;

// a thread
mod thread;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use thruway_http1::HeadIndex;
use thruway_net::{Clock, Deadlines};

use crate::failure::{Failure, FailureKind};
use crate::lateness::Lateness;
use crate::record::{Interval, Record};
use crate::requests::Requests;
use crate::schedule::{Pace, Schedule};
use crate::stop::{Budget, Limit, StopFlag};
use parking::Parking;

pub use lane::{Connect, Handshake, OpenError, Opened};
pub(crate) use thread::{ThreadPlan, WorkerThread, thread_use};

/// How connections are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Whether HTTP/2 is spoken: at once, or as it was agreed upon when the connection was opened. Otherwise HTTP/1.1 is.
    pub is_http2: bool,
    /// Requests on a connection that are not answered at the same time, at least 1. In a closed loop of HTTP/1.1 the next are sent
    /// when all are answered, in one write; over HTTP/2 each has a stream, and the next is sent as soon as one is answered.
    pub pipeline: usize,
    /// Whether a connection has more than one request. Whether the requests say so is for [`Requests`].
    pub is_persistent: bool,
    /// How long a request may take, from its actual start.
    pub timeout: Duration,
    /// How long an open loop waits for the last answers when it has ended; at most a second if that was from outside.
    pub drain: Duration,
}

/// What load a worker makes, and its part in it.
#[derive(Clone)]
pub struct Share {
    /// When requests start.
    pub pace: Pace,
    /// When the load ends.
    pub limit: Limit,
    /// How long requests are made before they are measured.
    pub warm_up: Duration,
    /// Which worker this is.
    pub worker: usize,
    /// How many there are.
    pub workers: usize,
    /// How long each [`Interval`] is.
    pub interval: Duration,
    /// Ends the load from outside.
    pub stop: StopFlag,
}

/// A worker: what the connections of one thread share.
pub struct Worker {
    clock: Clock,
    requests: Arc<dyn Requests>,
    manner: Manner,
    share: Share,
    plan: RefCell<Plan>,
    /// What is meant to start before is not measured.
    measured_from: Duration,
    phase: Cell<Phase>,
    record: RefCell<Record>,
    intervals: RefCell<Intervals>,
    hot: RefCell<Hot>,
    deadlines: Deadlines,
    next_tick: Cell<Duration>,
    /// Since when no attempt to connect has succeeded, if the last one has failed.
    unconnected_since: Cell<Option<Duration>>,
    /// The task that waits for the next wake; woken when that comes to be earlier.
    timer_task: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Phase {
    /// Requests start.
    Running,
    /// None do; those on their way may be answered.
    Draining {
        /// Until then.
        until: Duration,
    },
    /// Nothing counts any more.
    Over,
}

struct Plan {
    schedule: Schedule,
    budget: Budget,
    taken: u64,
    parking: Parking,
}

struct Intervals {
    current: Interval,
    /// Whoever wants to know of each when it is over.
    to: Option<Sender<Interval>>,
}

/// What all connections read into and parse with, one at a time.
struct Hot {
    input: Box<[u8]>,
    index: HeadIndex,
}

/// A request that has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticket {
    number: u64,
    intended: Duration,
    started: Duration,
}

/// What there is to do for a connection that can send.
enum Taken {
    Start(Ticket),
    /// Nothing yet: the task is woken when there is.
    Wait,
    /// Nothing any more.
    Over,
}

/// A complete answer.
struct Answered {
    /// None where there are none, over pipes.
    status: Option<u16>,
    sent_bytes: u64,
    received_bytes: u64,
    content_bytes: u64,
    is_event_stream: bool,
}

impl Worker {
    /// A worker whose requests begin at `begin`.
    pub fn new(
        clock: Clock,
        requests: Arc<dyn Requests>,
        manner: Manner,
        share: Share,
        begin: Duration,
        to: Option<Sender<Interval>>,
    ) -> Rc<Self> {
        let schedule = Schedule::new(share.pace, begin, share.worker, share.workers);
        let budget = Budget::new(share.limit, begin + share.warm_up, share.worker, share.workers);
        let lateness = share.pace.window(share.limit).map(Lateness::new);
        Rc::new(Self {
            clock,
            requests,
            manner,
            plan: RefCell::new(Plan { schedule, budget, taken: 0, parking: Parking::default() }),
            measured_from: begin + share.warm_up,
            phase: Cell::new(Phase::Running),
            record: RefCell::new(Record::of_open_loop(lateness)),
            intervals: RefCell::new(Intervals { current: Interval::new(0), to }),
            hot: RefCell::new(Hot {
                input: vec![0; INPUT_BYTES].into_boxed_slice(),
                index: HeadIndex::with_capacity(FIELD_LINES),
            }),
            deadlines: Deadlines::new(),
            next_tick: Cell::new(begin),
            unconnected_since: Cell::new(None),
            timer_task: RefCell::new(None),
            share,
        })
    }

    /// What has happened so far.
    pub fn record(&self) -> Record {
        let mut record = self.record.borrow().clone();
        if !self.is_open() {
            record.response = record.service.clone();
        }
        record
    }

    /// When to call [`wake_due`](Self::wake_due). The task of `cx` is woken if that comes to be earlier than what was told
    /// before.
    pub fn poll_next_wake(&self, cx: &Context<'_>) -> Duration {
        self.timer_task.replace(Some(cx.waker().clone()));
        let plan = self.plan.borrow();
        let due = plan.schedule.next().filter(|_| plan.parking.needs_timer());
        let end = match self.phase.get() {
            Phase::Running => plan.budget.end,
            Phase::Draining { until } => Some(until),
            Phase::Over => None,
        };
        [due, end].into_iter().flatten().fold(self.next_tick.get(), Duration::min)
    }

    /// Does what is due: wakes connections whose request may start or has taken too long, ends the load.
    pub fn wake_due(&self) {
        let now = self.clock.now_exact();
        if now >= self.next_tick.get() {
            self.tick(now);
        }
        if self.phase.get() == Phase::Running {
            let mut plan = self.plan.borrow_mut();
            let end = plan.budget.end;
            let is_due = |next| next <= now && end.is_none_or(|end| next < end);
            let is_due = plan.schedule.next().is_some_and(is_due);
            // What was due before the end is sent as long as a connection is free for it: this thread may have come late.
            let is_over = end.is_some_and(|end| now >= end) && !(is_due && plan.parking.has_waiting());
            if is_due && !is_over {
                plan.parking.wake_one();
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

    /// Gives the last interval away.
    pub fn finish(&self) {
        let mut intervals = self.intervals.borrow_mut();
        let last = std::mem::replace(&mut intervals.current, Interval::new(0));
        intervals.send(last);
    }

    fn is_open(&self) -> bool {
        self.share.pace.rate().is_some()
    }

    /// What happens ten times a second, or more often where requests have little time.
    fn tick(&self, now: Duration) {
        let tick = (self.manner.timeout / 10).clamp(TICK_MIN, TICK_MAX);
        // One is exactly when the measuring begins: what is read then is not late.
        let until_measured = self.measured_from.checked_sub(now).filter(|left| !left.is_zero());
        self.next_tick.set(now + until_measured.map_or(tick, |left| left.min(tick)));
        self.deadlines.wake_overdue(now);
        let index = interval_at(now, self.measured_from, self.share.interval);
        self.intervals.borrow_mut().turn_to(index);
        let is_hopeless = self.unconnected_since.get().is_some_and(|since| now >= since + PATIENCE)
            && matches!(self.share.limit, Limit::Requests(_));
        match self.phase.get() {
            Phase::Running if self.share.stop.is_set() || is_hopeless => self.end_early(now, is_hopeless),
            Phase::Draining { until } if self.share.stop.is_set() => {
                self.phase.set(Phase::Draining { until: until.min(now + DRAIN_OF_STOPPED) });
            }
            _ => {}
        }
    }

    /// Nothing starts from `now` on, although more was asked for.
    fn end_early(&self, now: Duration, is_given_up: bool) {
        let mut record = self.record.borrow_mut();
        record.is_given_up |= is_given_up;
        record.ended_early_at = Some(now);
        drop(record);
        self.plan.borrow_mut().budget.end_at(now);
        self.drain(now);
    }

    /// Whether each request is waited for, as many as were asked for.
    fn waits_for_all(&self) -> bool {
        let is_ended_early = self.share.stop.is_set() || self.record.borrow().is_given_up;
        matches!(self.share.limit, Limit::Requests(_)) && !is_ended_early
    }

    /// Ends the load: nothing starts any more. What should have and did not is counted.
    fn drain(&self, now: Duration) {
        let is_counted = self.waits_for_all();
        // A closed loop that has ended by the clock owes nobody an answer; requests that are counted are waited for.
        let patience = match (is_counted, self.is_open()) {
            (true, _) => self.manner.timeout + TICK_MAX * 2,
            (false, true) if self.share.stop.is_set() => self.manner.drain.min(DRAIN_OF_STOPPED),
            (false, true) => self.manner.drain,
            (false, false) => Duration::ZERO,
        };
        // It may be known before the end that nothing more will start.
        let end = self.plan.borrow().budget.end.map_or(now, |end| end.max(now));
        self.phase.set(Phase::Draining { until: end + patience });
        if !is_counted {
            self.count_unsent();
        }
        self.plan.borrow_mut().parking.wake_all();
        self.deadlines.wake_all();
        self.wake_timer();
    }

    /// Those that were meant to start before the end and found no connection.
    fn count_unsent(&self) {
        let plan = &mut *self.plan.borrow_mut();
        let Some(end) = plan.budget.end else { return };
        while let Some(intended) = plan.schedule.next().filter(|next| *next < end) {
            plan.schedule.advance();
            if plan.budget.take(intended) {
                let ticket = Ticket { number: 0, intended, started: intended };
                self.fail(ticket, end, &Failure::of(FailureKind::Unsent));
            }
        }
    }

    /// The next request for `lane`, if it may start now.
    fn take(&self, lane: usize, now: Duration, cx: &Context<'_>) -> Taken {
        if self.phase.get() != Phase::Running {
            return Taken::Over;
        }
        let plan = &mut *self.plan.borrow_mut();
        plan.parking.leave(lane);
        let intended = plan.schedule.next().unwrap_or(now);
        if intended > now && plan.budget.end.is_none_or(|end| intended < end) {
            plan.parking.park(lane, cx.waker());
            self.wake_timer();
            return Taken::Wait;
        }
        if !plan.budget.take(intended) {
            return Taken::Over;
        }
        plan.schedule.advance();
        let number = plan.taken * self.share.workers as u64 + self.share.worker as u64;
        plan.taken += 1;
        if plan.parking.has_waiting() {
            if plan.schedule.next().is_some_and(|next| next <= now) {
                plan.parking.wake_one();
            }
            self.wake_timer();
        }
        Taken::Start(Ticket { number, intended, started: now })
    }

    /// Nothing can be sent any more: the load ends here.
    fn give_up_all(&self, now: Duration) {
        if self.phase.get() == Phase::Running {
            self.end_early(now, true);
        }
    }

    /// No request is left for anybody.
    fn note_exhausted(&self, now: Duration) {
        if self.phase.get() == Phase::Running {
            self.drain(now);
        }
    }

    fn wake_timer(&self) {
        if let Some(task) = self.timer_task.take() {
            task.wake();
        }
    }

    fn complete(&self, ticket: Ticket, now: Duration, answered: &Answered) {
        if !self.is_measured(ticket, now) {
            return;
        }
        let record = &mut *self.record.borrow_mut();
        if let Some(status) = answered.status {
            record.count_status(status, 1);
        }
        record.answered += 1;
        record.sent_bytes += answered.sent_bytes;
        record.received_bytes += answered.received_bytes;
        record.content_bytes += answered.content_bytes;
        record.event_streams += u64::from(answered.is_event_stream);
        record.last_answer = now;
        record.last_end = now;
        let interval = &mut self.intervals.borrow_mut().current;
        interval.answered += 1;
        if !self.has_time(ticket) {
            return;
        }
        record.service.record(now.saturating_sub(ticket.started));
        if self.is_open() {
            record.response.record(now.saturating_sub(ticket.intended));
            self.note_lateness(record, ticket, now);
        }
        interval.response.record(now.saturating_sub(ticket.intended));
    }

    /// Whether a request that ends now is counted. A closed loop that ends by the clock counts what ends in the measured time: if it
    /// counted what began in it, each connection would lose the request that was on its way when that time began, and the one
    /// that was when it ended. Where requests are due or counted beforehand, those count that began in it.
    #[inline]
    fn is_measured(&self, ticket: Ticket, now: Duration) -> bool {
        let ends_by_clock = !self.is_open() && matches!(self.share.limit, Limit::Duration(_));
        self.has_time(ticket) || ends_by_clock && now >= self.measured_from
    }

    /// Whether it began in the measured time, and not while it warmed up, so that its time is of interest.
    #[inline]
    fn has_time(&self, ticket: Ticket) -> bool {
        ticket.intended >= self.measured_from
    }

    /// A complete answer that was not what was expected.
    fn complete_wrongly(&self, ticket: Ticket, now: Duration, status: u16, failure: &Failure) {
        if self.is_measured(ticket, now) {
            self.record.borrow_mut().count_status(status, 1);
        }
        self.fail(ticket, now, failure);
    }

    fn fail(&self, ticket: Ticket, now: Duration, failure: &Failure) {
        if !self.is_measured(ticket, now) {
            return;
        }
        let record = &mut *self.record.borrow_mut();
        let interval = &mut self.intervals.borrow_mut().current;
        record.fail(failure);
        record.last_end = record.last_end.max(now);
        interval.failed += 1;
        if !failure.kind.counts_as_waited() || !self.has_time(ticket) {
            return;
        }
        // How long those have waited that were never sent depends on when it ended, and not on the server.
        if failure.kind != FailureKind::Unsent {
            record.service.record(now.saturating_sub(ticket.started));
            self.note_lateness(record, ticket, now);
        }
        if self.is_open() {
            record.response.record(now.saturating_sub(ticket.intended));
        }
        interval.response.record(now.saturating_sub(ticket.intended));
    }

    #[inline]
    fn note_lateness(&self, record: &mut Record, ticket: Ticket, now: Duration) {
        if let Some(lateness) = &mut record.lateness {
            let at = ticket.intended.saturating_sub(self.measured_from);
            lateness.record(at, now.saturating_sub(ticket.intended));
        }
    }

    /// A connection was opened for a request.
    fn note_opened(&self, handshake: Option<Handshake>) {
        let record = &mut *self.record.borrow_mut();
        record.connections_opened += 1;
        if self.clock.now_exact() < self.measured_from {
            return;
        }
        match handshake {
            None => {}
            Some(Handshake::Full) => record.handshakes_full += 1,
            Some(Handshake::Resumed) => record.handshakes_resumed += 1,
        }
    }

    /// How many streams the server allows on a connection.
    fn note_streams_max(&self, allowed: usize) {
        let record = &mut *self.record.borrow_mut();
        record.streams_max = record.streams_max.min(allowed as u64);
    }

    /// Octets came that no request had asked for.
    fn note_surplus(&self, now: Duration) {
        if now >= self.measured_from {
            self.record.borrow_mut().fail(&Failure::of(FailureKind::Surplus));
            self.intervals.borrow_mut().current.failed += 1;
        }
    }

    /// What becomes of a request that is on its way when nothing counts any more.
    fn give_up(&self, ticket: Ticket, now: Duration) {
        if self.is_open() || self.waits_for_all() {
            self.fail(ticket, now, &Failure::of(FailureKind::Unanswered));
        } else {
            let record = &mut *self.record.borrow_mut();
            record.cut_off += 1;
            record.cut_off_waits.record(now.saturating_sub(ticket.started));
        }
    }
}

impl Intervals {
    /// The interval `index` has come.
    fn turn_to(&mut self, index: u64) {
        if index > self.current.index {
            let last = std::mem::replace(&mut self.current, Interval::new(index));
            self.send(last);
        }
    }

    fn send(&self, interval: Interval) {
        if let Some(to) = &self.to {
            // Whoever wanted to know may have gone.
            let _ = to.send(interval);
        }
    }
}

fn interval_at(now: Duration, measured_from: Duration, interval: Duration) -> u64 {
    let since = now.saturating_sub(measured_from);
    u64::try_from(since.as_nanos() / interval.as_nanos().max(1)).unwrap_or(u64::MAX)
}

impl Worker {
    /// Does what is due whenever its time has come, on a thread with a reactor; ready only if the timer fails.
    fn poll_timer(&self, timer: &mut timer::Timer, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let at = self.poll_next_wake(cx);
        if let Poll::Ready(outcome) = timer.poll_until(cx, at) {
            outcome?;
            self.wake_due();
            // Those that were woken look first: only then it is known for when the timer is to be set.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// What one read takes at most; longer than the longest head.
const INPUT_BYTES: usize = 256 << 10;

/// Enough for the field lines of most heads; the index grows for others.
const FIELD_LINES: usize = 64;

/// How long a load of counted requests goes on asking a server that cannot be connected to. One with a time ends by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an open loop that was ended from outside waits for its last answers.
const DRAIN_OF_STOPPED: Duration = Duration::from_secs(1);

const TICK_MAX: Duration = Duration::from_millis(100);
const TICK_MIN: Duration = Duration::from_millis(2);
