//! Results of requests. Their memory use does not grow with the number of requests.

use std::time::Duration;

use crate::failure::{Detail, Failure, FailureKind};
use crate::lateness::Lateness;
use crate::times::Times;

/// Results of the requests of one worker, or the [sum](Record::add) of the results of several workers.
#[derive(Clone, Debug)]
pub struct Record {
    /// Times from the actual start of a request to the end of its response.
    pub service: Times,
    /// Times from the scheduled start of a request to the end of its response. The same as `service` in a
    /// closed loop.
    pub response: Times,
    /// Number of requests with the expected response. If a duration limits a closed loop, this includes
    /// responses in the measured time to requests that started earlier. The times do not include those.
    pub answered: u64,
    /// Bytes of answered requests, including header sections.
    pub sent_bytes: u64,
    /// Bytes of complete responses, including header sections.
    pub received_bytes: u64,
    /// Body bytes of complete responses.
    pub content_bytes: u64,
    /// Number of complete responses that arrived in an event stream. MCP messages only.
    pub event_streams: u64,
    /// Number of opened connections, including those opened before the start.
    pub connections_opened: u64,
    /// Number of full TLS handshakes for measured requests. Handshakes before the start are not included.
    pub handshakes_full: u64,
    /// Number of resumed TLS handshakes for measured requests.
    pub handshakes_resumed: u64,
    /// The smallest limit of concurrent HTTP/2 streams that the server announced, or [`u64::MAX`] if it
    /// announced none.
    pub streams_max: u64,
    /// Number of requests that were sent again on another connection: they were pipelined behind a request
    /// whose response announced that the server closes the connection. Each counts as one request, timed from
    /// its first start.
    pub sent_again: u64,
    /// Number of requests in progress when a closed loop ended. They are not counted elsewhere.
    pub cut_off: u64,
    /// Waiting times of the requests that were cut off, from their start to the end of the load.
    pub cut_off_waits: Times,
    /// `true` if the load ended before all counted requests had started, because no connection could be
    /// opened.
    pub is_given_up: bool,
    /// Time of the last expected response.
    pub last_answer: Duration,
    /// Time of the last response or failure.
    pub last_end: Duration,
    /// If the load ended early: the time after which no request was due.
    pub ended_early_at: Option<Duration>,
    /// Growth of the waiting times. Open loop only.
    pub(crate) lateness: Option<Lateness>,
    statuses: Vec<(u16, u64)>,
    failures: Vec<u64>,
    /// Details of the first failure of each kind, as an example.
    details: Vec<Option<Detail>>,
}

/// Results in one part of the measured time.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Index of the part, counted from 0.
    pub index: u64,
    /// Number of requests with the expected response.
    pub answered: u64,
    /// Number of failed requests.
    pub failed: u64,
    /// Response times in this part.
    pub response: Times,
}

impl Record {
    /// Creates an empty record.
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

    /// Creates an empty record that also collects the growth of waiting times in an open loop.
    pub(crate) fn of_open_loop(lateness: Option<Lateness>) -> Self {
        Self { lateness, ..Self::new() }
    }

    /// Returns the number of complete responses for each status, the lowest status first.
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

    /// Returns the number of expected responses per second. `window` is the time in which requests were
    /// scheduled. In an open loop, late responses count too, because their requests were due within `window`.
    /// If the server falls behind, the result is limited to the share of the offered rate that it can
    /// process.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn achieved_requests_per_second(&self, window: Duration) -> f64 {
        let share_done = self.lateness.as_ref().map_or(1.0, Lateness::share_done);
        let kept_up_with = (self.answered + self.failed()) as f64 * share_done;
        kept_up_with.min(self.answered as f64) / window.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Adds the results of other requests.
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

    /// A linear search is fast enough, because there are few different statuses.
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

    /// Adds the results of the same interval of another worker, or of the next interval.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.response.add(&other.response);
    }
}
