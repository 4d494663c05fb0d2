//! Results of requests. Their size does not grow with the number of requests.

use std::time::Duration;

use crate::failure::{Detail, Failure, FailureKind};
use crate::lateness::Lateness;
use crate::times::Times;

/// Results of the requests of a worker, or of several workers, [added](Record::add) up.
#[derive(Clone, Debug)]
pub struct Record {
    /// From the actual start to the end of the answer.
    pub service: Times,
    /// From the intended start. The same as `service` in a closed loop.
    pub response: Times,
    /// Requests with a complete and expected response. In a closed loop that ends by the clock: all responses
    /// that arrived in the measured time, including those of requests that started before; no time is
    /// recorded for those.
    pub answered: u64,
    /// Bytes of answered requests, headers included.
    pub sent_bytes: u64,
    /// Bytes of complete responses, headers included.
    pub received_bytes: u64,
    /// Body bytes of complete responses.
    pub content_bytes: u64,
    /// Complete answers that came in an event stream. Messages of MCP only.
    pub event_streams: u64,
    /// Connections that were opened, those before the start included.
    pub connections_opened: u64,
    /// Full handshakes of TLS for requests that were measured; those before the start are not among them.
    pub handshakes_full: u64,
    /// Resumed ones, likewise.
    pub handshakes_resumed: u64,
    /// The least that a server allowed of streams on a connection of HTTP/2; [`u64::MAX`] where none has said
    /// so.
    pub streams_max: u64,
    /// Requests that were sent again on another connection: they stood behind one after which the server had
    /// announced to close. They are counted once, with their first start.
    pub sent_again: u64,
    /// Requests of a closed loop that were on their way when it ended. They are not counted elsewhere.
    pub cut_off: u64,
    /// Times since the start of the requests that were cut off.
    pub cut_off_waits: Times,
    /// `true` if the load ended before all counted requests had started, because no connection could be
    /// opened.
    pub is_given_up: bool,
    /// When the last answer was complete that was as expected.
    pub last_answer: Duration,
    /// When the last request was answered or had failed.
    pub last_end: Duration,
    /// Time after which no request was due, if the load ended early.
    pub ended_early_at: Option<Duration>,
    /// Growth of the waiting times; in an open loop.
    pub(crate) lateness: Option<Lateness>,
    statuses: Vec<(u16, u64)>,
    failures: Vec<u64>,
    /// The first of each kind, as an example.
    details: Vec<Option<Detail>>,
}

/// Events in a part of the measured time.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Which part, counted from 0.
    pub index: u64,
    /// Requests that were answered as expected.
    pub answered: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Response times.
    pub response: Times,
}

impl Record {
    /// Creates an interval without events.
    pub fn new() -> Self {
        Self {
            service: Times::exact(),
            response: Times::exact(),
            answered: 0,
            sent_bytes: 0,
            received_bytes: 0,
            content_bytes: 0,
            event_streams: 0,
            connections_opened: 0,
            handshakes_full: 0,
            handshakes_resumed: 0,
            streams_max: u64::MAX,
            sent_again: 0,
            cut_off: 0,
            cut_off_waits: Times::exact(),
            is_given_up: false,
            last_answer: Duration::ZERO,
            last_end: Duration::ZERO,
            ended_early_at: None,
            lateness: None,
            statuses: Vec::new(),
            failures: vec![0; FailureKind::ALL.len()],
            details: vec![None; FailureKind::ALL.len()],
        }
    }

    /// Creates an interval that also records values of an open loop.
    pub(crate) fn of_open_loop(lateness: Option<Lateness>) -> Self {
        Self { lateness, ..Self::new() }
    }

    /// Complete answers by status, the lowest first.
    pub fn statuses(&self) -> Vec<(u16, u64)> {
        let mut statuses = self.statuses.clone();
        statuses.sort_unstable();
        statuses
    }

    /// Returns the number of failed requests.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Returns the number of failures of this kind.
    pub fn failed_as(&self, kind: FailureKind) -> u64 {
        self.failures[kind as usize]
    }

    /// Returns the kinds of failures with their counts and the details of the first of each kind.
    pub fn failures(&self) -> impl Iterator<Item = (FailureKind, u64, String)> {
        let kinds = FailureKind::ALL.iter().zip(&self.failures).zip(&self.details);
        kinds.filter(|((_, count), _)| **count > 0).map(|((kind, count), detail)| {
            (*kind, *count, detail.map_or_else(String::new, |detail| detail.to_string()))
        })
    }

    /// Requests a second that were answered as expected, where `window` is how long requests were meant to
    /// start. In an open loop, answers that come after it count too, since they were promised within it; but
    /// not faster than the server keeps up with what it is offered.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn achieved_requests_per_second(&self, window: Duration) -> f64 {
        let share_done = self.lateness.as_ref().map_or(1.0, Lateness::share_done);
        let kept_up_with = (self.answered + self.failed()) as f64 * share_done;
        kept_up_with.min(self.answered as f64) / window.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Adds what happened to others.
    pub fn add(&mut self, other: &Self) {
        self.service.add(&other.service);
        self.response.add(&other.response);
        self.answered += other.answered;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.content_bytes += other.content_bytes;
        self.event_streams += other.event_streams;
        self.connections_opened += other.connections_opened;
        self.handshakes_full += other.handshakes_full;
        self.handshakes_resumed += other.handshakes_resumed;
        self.streams_max = self.streams_max.min(other.streams_max);
        self.sent_again += other.sent_again;
        self.cut_off += other.cut_off;
        self.cut_off_waits.add(&other.cut_off_waits);
        self.is_given_up |= other.is_given_up;
        self.last_answer = self.last_answer.max(other.last_answer);
        self.last_end = self.last_end.max(other.last_end);
        self.ended_early_at = self.ended_early_at.max(other.ended_early_at);
        match (&mut self.lateness, &other.lateness) {
            (Some(lateness), Some(more)) => lateness.add(more),
            (lateness, more) => *lateness = lateness.take().or_else(|| more.clone()),
        }
        for (status, count) in &other.statuses {
            self.count_status(*status, *count);
        }
        for (count, more) in self.failures.iter_mut().zip(&other.failures) {
            *count += more;
        }
        for (detail, others) in self.details.iter_mut().zip(&other.details) {
            *detail = detail.or(*others);
        }
    }

    pub(crate) fn fail(&mut self, failure: &Failure) {
        let place = failure.kind as usize;
        self.failures[place] += 1;
        self.details[place].get_or_insert(failure.detail);
    }

    /// There are few statuses, and mostly one.
    #[inline]
    pub(crate) fn count_status(&mut self, status: u16, count: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, counted)) => *counted += count,
            None => self.statuses.push((status, count)),
        }
    }
}

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Interval {
    pub(crate) fn new(index: u64) -> Self {
        Self { index, answered: 0, failed: 0, response: Times::coarse() }
    }

    /// Adds what happened in the same time, or in the time behind it.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.response.add(&other.response);
    }
}
