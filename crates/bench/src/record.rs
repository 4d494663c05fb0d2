//! Collects the results of requests. The memory use does not grow with the number of requests.

use std::time::Duration;

use crate::failure::{Detail, Failure, FailureKind};
use crate::lateness::Lateness;
use crate::requests::ScenarioRecord;
use crate::stage_records::StageRecords;
use crate::times::Times;

/// Results of the requests of one worker, or the [sum](Record::add) of the results of several workers.
#[derive(Clone, Debug)]
pub struct Record {
    /// Times from the actual start of a request to the end of its response.
    pub service: Times,
    /// Times from the scheduled start of a request to the end of its response. In a closed loop, these
    /// times are the same as `service`.
    pub response: Times,
    /// Number of requests with the expected response. In a closed loop with a duration, this number
    /// includes requests that started in the warm-up and were answered in the measured time. The
    /// distributions of times do not include such requests.
    pub answered: u64,
    /// Bytes of answered requests, including header sections.
    pub sent_bytes: u64,
    /// Bytes of complete responses, including header sections.
    pub received_bytes: u64,
    /// Body bytes of complete responses.
    pub content_bytes: u64,
    /// Number of complete responses that arrived in an event stream. MCP messages only.
    pub event_streams: u64,
    /// Number of opened connections, including connections that were opened before the start.
    pub connections_opened: u64,
    /// Number of full TLS handshakes in the measured time.
    pub handshakes_full: u64,
    /// Number of resumed TLS handshakes in the measured time.
    pub handshakes_resumed: u64,
    /// The smallest limit of concurrent HTTP/2 streams that the server announced, or [`u64::MAX`] if the
    /// server announced no limit.
    pub streams_max: u64,
    /// Number of requests that were sent again on another connection, because the server announced that it
    /// closes the first connection. A request that was sent again counts once, and its time begins with its
    /// first start.
    pub sent_again: u64,
    /// Number of requests in progress when a closed loop ended. No other counter includes these requests.
    pub cut_off: u64,
    /// Waiting times of the requests that were cut off, from their start to the end of the load.
    pub cut_off_waits: Times,
    /// `true` if the load ended early because the server was not usable any more, for example because no
    /// connection could be opened.
    pub is_given_up: bool,
    /// Time of the last expected response.
    pub last_answer: Duration,
    /// Time of the last response or failure.
    pub last_end: Duration,
    /// Time at which the load ended, if it ended before its planned end.
    pub ended_early_at: Option<Duration>,
    /// Data about growing response times. Only an open loop has this data.
    pub(crate) lateness: Option<Lateness>,
    /// Results by stage, if the load has stages.
    pub stages: Option<StageRecords>,
    /// Results by step, if the load has a scenario.
    pub scenario: Option<ScenarioRecord>,
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
            stages: None,
            scenario: None,
            statuses: Vec::new(),
            failures: vec![0; FailureKind::ALL.len()],
            details: vec![None; FailureKind::ALL.len()],
        }
    }

    /// Creates an empty record. In an open loop, `lateness` collects data about growing response times.
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

    /// Returns each kind of failure that occurred, with its count and the details of its first failure.
    pub fn failures(&self) -> impl Iterator<Item = (FailureKind, u64, String)> {
        let kinds = FailureKind::ALL.iter().zip(&self.failures).zip(&self.details);
        kinds.filter(|((_, count), _)| **count > 0).map(|((kind, count), detail)| {
            (*kind, *count, detail.map_or_else(String::new, |detail| detail.to_string()))
        })
    }

    /// Returns the rate of requests with the expected response, in requests per second. `window` is the time
    /// in which requests were scheduled. In an open loop, late responses count too, because their requests
    /// were scheduled within `window`. If the server falls behind, the result is at most the rate that the
    /// server can sustain.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn achieved_requests_per_second(&self, window: Duration) -> f64 {
        let share_done = self.lateness.as_ref().map_or(1.0, Lateness::share_done);
        let kept_up_with = (self.answered + self.failed()) as f64 * share_done;
        kept_up_with.min(self.answered as f64) / window.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Adds the results of another record, for example the record of another worker.
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
        match (&mut self.stages, &other.stages) {
            (Some(stages), Some(more)) => stages.add(more),
            (stages, more) => *stages = stages.take().or_else(|| more.clone()),
        }
        match (&mut self.scenario, &other.scenario) {
            (Some(scenario), Some(more)) => scenario.add(more),
            (scenario, more) => *scenario = scenario.take().or_else(|| more.clone()),
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

    /// Adds `count` responses with the status `status`. A linear search is fast enough, because a load gets
    /// only few different statuses.
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

    /// Adds the results of `other`: the same interval of another worker, or a neighboring interval.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.response.add(&other.response);
    }
}
