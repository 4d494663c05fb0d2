//! What a load has shown, as a value that can be written down: the schema of `--output json`.

// what there is to say
mod times;

// in which form
mod figures;
mod text;
mod markdown;
mod csv;
mod html;
mod plot;

use std::time::Duration;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::compare::Comparison;
use crate::cut_off::CutOff;
use crate::failure::FailureKind;
use crate::listen_queue::ListenQueue;
use crate::record::Record;
use crate::run::{Load, Outcome, WorkerUse};
use crate::schedule::Pace;
use crate::stop::Limit;

pub(crate) use csv::quoted;
pub(crate) use figures::three_digits;
pub use figures::{octets, rate, time};
pub(crate) use html::STYLE;
pub(crate) use plot::{Bar, bars};
pub use times::{Point, TimesReport};

/// A report. Fields may be added to it; none changes its meaning or its unit without another `format`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `thruway-bench/1`.
    pub format: String,
    /// What was loaded, as it was asked for.
    pub target: String,
    /// How it was loaded.
    pub settings: Settings,
    /// Seconds that were measured: until the last request was answered or had failed, if that was after the end.
    pub elapsed_seconds: f64,
    /// Whether it was ended from outside before its end.
    pub is_interrupted: bool,
    /// Whether it ended early because the server could not be connected to any more.
    pub is_given_up: bool,
    /// Whether the server had likely stopped to answer when a closed loop ended: requests that were cut off had waited for much longer than
    /// others took.
    #[serde(default)]
    pub is_stalled: bool,
    /// What keeps the figures from meaning what they seem to, for people.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Requests a second that were meant to start; absent in a closed loop.
    pub offered_rate: Option<f64>,
    /// Requests a second that were due in fact, which for a Poisson process is a matter of chance; absent in a closed loop.
    #[serde(default)]
    pub due_rate: Option<f64>,
    /// Requests a second that were answered as expected. In an open loop, of those that were due in the measured time, whenever
    /// their answers came; less if the server has fallen behind more and more.
    pub achieved_rate: f64,
    /// Requests by what became of them.
    pub requests: RequestCounts,
    /// Complete answers by status, the lowest first.
    pub statuses: Vec<Status>,
    /// Requests that failed, by kind.
    pub errors: Vec<ErrorCount>,
    /// Octets on the wire.
    pub octets: Octets,
    /// Connections.
    pub connections: Connections,
    /// Handshakes of TLS; absent without.
    #[serde(default)]
    pub handshakes: Option<Handshakes>,
    /// Times from the actual start of a request to the end of its answer. Requests that timed out count with the time
    /// that was waited.
    pub service_time: TimesReport,
    /// Times from the intended start of a request to the end of its answer. Requests that timed out, were not answered or
    /// never sent before the end count with the time that was waited. The same as `service_time` in a closed loop; there, requests that were
    /// cut off at the end count with what they had waited, if that changes anything: see `at_least_from`.
    pub response_time: TimesReport,
    /// Times from the start of a publication until a subscriber was told of it, for each subscriber; absent of other loads. There
    /// `service_time` is the time until the last one was told.
    #[serde(default)]
    pub deliveries: Option<TimesReport>,
    /// How it went, in parts of equal length.
    pub over_time: Vec<Part>,
    /// What the load generator itself has cost.
    pub generator: Generator,
    /// What the server has cost; absent if its process is not known.
    pub server: Option<ServerCost>,
    /// Connections for which listeners had no room, of all listeners of the machine; absent if the server is on another one.
    #[serde(default)]
    pub listen_queue: Option<ListenQueue>,
}

/// How a server was loaded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// When requests start: `closed`, `constant` or `poisson`.
    pub pace: String,
    /// Requests a second that were meant to start; absent in a closed loop.
    #[serde(default)]
    pub rate: Option<f64>,
    /// What decides the distances between requests, if their pace is `poisson`.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Connections at the same time.
    pub connections: u64,
    /// Threads of the load generator.
    pub workers: u64,
    /// The version of HTTP: `1.1` or `2`. Absent of pipes.
    #[serde(default)]
    pub http_version: Option<String>,
    /// Requests on a connection that are not answered at the same time, at most: the depth of pipelines, or the number of streams.
    pub pipeline: u64,
    /// Whether a connection has more than one request.
    pub is_persistent: bool,
    /// Seconds that were to be measured, if that was the limit.
    pub duration_seconds: Option<f64>,
    /// Requests that were to be measured, if that was the limit.
    pub requests: Option<u64>,
    /// Seconds before that.
    pub warm_up_seconds: f64,
    /// Seconds that a request may take.
    pub timeout_seconds: f64,
}

/// Requests by what became of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestCounts {
    /// Answered as expected. In a closed loop that ends by the clock, in the measured time: those that began while it warmed up
    /// are among them, but not among the times.
    pub answered: u64,
    /// Failed in any way; see `errors`.
    pub failed: u64,
    /// On their way when a closed loop ended, and counted nowhere else.
    pub cut_off: u64,
    /// Sent again on another connection, because the server had announced to close the first; counted once elsewhere.
    pub sent_again: u64,
    /// Answered in an event stream, of those that were answered; messages of MCP only.
    #[serde(default)]
    pub event_streams: u64,
}

/// How many answers had a status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The status.
    pub status: u16,
    /// How many.
    pub count: u64,
}

/// How many requests failed in one way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// In which.
    pub kind: FailureKind,
    /// How many.
    pub count: u64,
    /// What there is to say about the first of them, for people; may be empty.
    pub example: String,
}

/// Octets on the wire, of requests that were answered as expected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Octets {
    /// Of requests, with their heads.
    pub sent: u64,
    /// Of answers, with their heads.
    pub received: u64,
    /// Of the content of answers.
    pub content: u64,
}

/// Connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Opened, before the start and while it went on.
    pub opened: u64,
    /// How many streams the server allows on one of HTTP/2, where it allows less than were asked for.
    #[serde(default)]
    pub streams_max: Option<u64>,
    /// That could not be opened before the start.
    pub missing: u64,
    /// Why the first of those could not.
    pub missing_because: Option<String>,
}

/// Handshakes of TLS while it was measured. Those of connections that were opened before the start are not among them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handshakes {
    /// With certificates.
    pub full: u64,
    /// Of sessions that were resumed.
    pub resumed: u64,
    /// Both together, a second.
    pub rate: f64,
}

/// A part of the time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// When it began, in seconds since the measuring began.
    pub at_seconds: f64,
    /// Requests a second that were answered as expected.
    pub rate: f64,
    /// Requests that failed.
    pub failed: u64,
    /// Median of the response times in microseconds.
    pub p50: f64,
    /// Their 99th percentile.
    pub p99: f64,
    /// The longest of them.
    pub max: f64,
}

/// What the load generator has cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// The same for each answer, in microseconds; absent if no request was answered as expected.
    pub cpu_per_request: Option<f64>,
    /// The share of its core that the busiest thread used, at most 1.
    pub busiest_worker: f64,
    /// The share of the time in which a thread was ready to run and had no core, of the thread of which that is most.
    #[serde(default)]
    pub waiting_worker: f64,
    /// Whether the load generator, and not the server, was likely the limit.
    pub is_limit: bool,
}

/// What a server has cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// Its process.
    pub pid: u32,
    /// CPU time in seconds, with that of threads that have ended, of descendants, and of children that have ended and were waited for.
    pub cpu_seconds: f64,
    /// Whether some of it is missing: processes have ended that nobody waited for.
    #[serde(default)]
    pub is_incomplete: bool,
    /// The CPU time for each answer, in microseconds; absent if no request was answered as expected.
    pub cpu_per_request: Option<f64>,
    /// Resident memory before, in octets.
    pub resident_before: u64,
    /// Resident memory after.
    pub resident_after: u64,
    /// The most that was seen.
    pub resident_max: u64,
}

impl Report {
    /// The report of a load.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn new(target: impl Into<String>, load: &Load, outcome: &Outcome) -> Self {
        let record = &outcome.record;
        // An answer that was waited for in vain keeps the generator from nothing.
        let busy = outcome.elapsed.saturating_sub(outcome.silence).max(outcome.window.min(outcome.elapsed));
        let seconds = busy.as_secs_f64().max(f64::MIN_POSITIVE);
        let due = (record.answered + record.failed()) as f64;
        let window = outcome.window.as_secs_f64().max(f64::MIN_POSITIVE);
        let cut_off = CutOff::of(record);
        let bounded = cut_off.as_ref().map(TimesReport::with_cut_off);
        let mut report = Self {
            format: FORMAT.to_owned(),
            target: target.into(),
            settings: Settings::of(load),
            elapsed_seconds: outcome.elapsed.as_secs_f64(),
            is_interrupted: outcome.is_stopped,
            is_given_up: record.is_given_up,
            is_stalled: cut_off
                .is_some_and(|cut_off| cut_off.is_stall(&record.service, outcome.elapsed, outcome.silence)),
            warnings: Vec::new(),
            offered_rate: load.pace.rate(),
            due_rate: load.pace.rate().map(|_| due / window),
            achieved_rate: record.achieved_rate(outcome.window),
            requests: RequestCounts {
                answered: record.answered,
                failed: record.failed(),
                cut_off: record.cut_off,
                sent_again: record.sent_again,
                event_streams: record.event_streams,
            },
            statuses: record.statuses().into_iter().map(|(status, count)| Status { status, count }).collect(),
            errors: record
                .failures()
                .map(|(kind, count, example)| ErrorCount { kind, count, example })
                .collect(),
            octets: Octets {
                sent: record.sent_bytes,
                received: record.received_bytes,
                content: record.content_bytes,
            },
            connections: Connections {
                opened: record.connections_opened,
                streams_max: Some(record.streams_max).filter(|most| *most < load.manner.pipeline as u64),
                missing: outcome.missing.map_or(0, |(missing, _)| missing as u64),
                missing_because: outcome.missing.map(|(_, error)| error.to_string()),
            },
            handshakes: load.tls.as_ref().map(|_| Handshakes::of(record, seconds)),
            service_time: bounded.clone().unwrap_or_else(|| TimesReport::of(&record.service)),
            response_time: bounded.unwrap_or_else(|| TimesReport::of(&record.response)),
            deliveries: outcome.deliveries.as_ref().map(TimesReport::of),
            over_time: parts(outcome),
            generator: Generator::of(outcome, seconds),
            server: ServerCost::of(load, outcome),
            listen_queue: outcome.listen_queue,
        };
        report.warnings = text::warnings(&report);
        report
    }

    /// The JSON Schema of reports.
    pub fn schema() -> Schema {
        schema_for!(Report)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As a table for people, `width` columns wide at most where that is possible.
    pub fn to_text(&self) -> String {
        text::report(self)
    }

    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        markdown::report(self)
    }

    /// As CSV: a line of names, a line of figures.
    pub fn to_csv(&self) -> String {
        csv::reports([self].into_iter())
    }

    /// As a page for browsers that needs nothing else.
    pub fn to_html(&self) -> String {
        html::page(&self.target, std::slice::from_ref(self), None)
    }

    /// The share that was achieved of what was due; `None` in a closed loop.
    pub fn achieved_share(&self) -> Option<f64> {
        self.due_rate.map(|due| self.achieved_rate / due.max(f64::MIN_POSITIVE))
    }

    /// Octets a second that were received.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn received_rate(&self) -> f64 {
        self.octets.received as f64 / self.requests.answered.max(1) as f64 * self.achieved_rate
    }

    /// Whether every request was answered as expected, and the server still answered at the end; those that were due just when it ended may have stayed unsent.
    pub fn is_clean(&self) -> bool {
        let at_the_end = |error: &ErrorCount| {
            error.kind == FailureKind::Unsent && error.count <= self.settings.connections
        };
        self.requests.answered > 0
            && !self.is_given_up
            && !self.is_stalled
            && self.errors.iter().all(at_the_end)
    }

    /// Returns `true` if requests failed for a reason that a late load generator does not explain.
    pub fn has_server_failures(&self) -> bool {
        self.errors.iter().any(|error| error.kind.is_of_server())
    }

    /// How many requests keep the load from being [clean](Self::is_clean): 0 only if it is. A few that were due just at the end of an open
    /// loop, and were not sent, are no failure.
    pub fn failures(&self) -> u64 {
        let is_silent = self.is_stalled || self.requests.answered == 0;
        let failed = self.requests.failed + if is_silent { self.requests.cut_off } else { 0 };
        if self.is_clean() { 0 } else { failed.max(1) }
    }
}

/// A page about a comparison, with the loads it was made of.
pub(crate) fn comparison_page(comparison: &Comparison, reports: &[Report]) -> String {
    let names: Vec<_> = comparison.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
    html::page(&names.join(" · "), reports, Some(comparison))
}

/// Returns the reason why written figures cannot be read. The names of Rust's types mean nothing to the reader.
pub(crate) fn unreadable(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.strip_prefix("missing field ") {
        Some(member) => format!("it has no member {}", member.split(" at line").next().unwrap_or(member)),
        None if error.is_data() => "a value in it has the wrong type".to_owned(),
        None => format!("it is no JSON: {message}"),
    }
}

/// Several loads as CSV.
pub(crate) fn to_csv<'a>(reports: impl Iterator<Item = &'a Report>) -> String {
    csv::reports(reports)
}

impl Settings {
    /// Those of a load.
    pub fn of(load: &Load) -> Self {
        let (duration_seconds, requests) = match load.limit {
            Limit::Duration(duration) => (Some(duration.as_secs_f64()), None),
            Limit::Requests(requests) => (None, Some(requests)),
        };
        let (pace, seed) = match load.pace {
            Pace::Closed => ("closed", None),
            Pace::Constant { .. } => ("constant", None),
            Pace::Poisson { seed, .. } => ("poisson", Some(seed)),
        };
        Self {
            pace: pace.to_owned(),
            rate: load.pace.rate(),
            seed,
            connections: load.connections as u64,
            workers: load.workers as u64,
            http_version: Some(if load.manner.is_http2 { "2" } else { "1.1" }.to_owned()),
            pipeline: load.manner.pipeline as u64,
            is_persistent: load.manner.is_persistent,
            duration_seconds,
            requests,
            warm_up_seconds: load.warm_up.as_secs_f64(),
            timeout_seconds: load.manner.timeout.as_secs_f64(),
        }
    }
}

impl Settings {
    /// What makes another load of the same requests, each with its value here and there. How long it goes on does not, nor do chance arrivals.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = self.decisive().into_iter().zip(other.decisive());
        let others = pairs.filter(|((_, here), (_, there))| here != there);
        others.map(|((name, here), (_, there))| format!("{name}: {here} instead of {there}")).collect()
    }

    fn decisive(&self) -> [(&'static str, String); 7] {
        [
            ("pace", self.pace.clone()),
            ("rate", self.rate.map_or_else(|| "any".to_owned(), rate)),
            ("connections", self.connections.to_string()),
            ("workers", self.workers.to_string()),
            ("version of HTTP", self.http_version.clone().unwrap_or_default()),
            ("requests on a connection at the same time", self.pipeline.to_string()),
            ("connections that are kept", self.is_persistent.to_string()),
        ]
    }
}

impl Handshakes {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    const fn of(record: &Record, seconds: f64) -> Self {
        let (full, resumed) = (record.handshakes_full, record.handshakes_resumed);
        Self { full, resumed, rate: (full + resumed) as f64 / seconds }
    }
}

/// Returns the microseconds of CPU time for each of so many answers, if there are any.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_request(cpu_seconds: f64, answered: u64) -> Option<f64> {
    (answered > 0).then(|| cpu_seconds * 1e6 / answered as f64)
}

impl Generator {
    /// Returns `true` if the load generator was the limit, or late: then rates and times are its own too.
    pub fn is_late(&self) -> bool {
        self.is_limit || self.waiting_worker > LATE
    }

    fn of(outcome: &Outcome, seconds: f64) -> Self {
        let cpu_seconds: f64 = outcome.workers.iter().map(|worker| worker.cpu.as_secs_f64()).sum();
        let most = |used: fn(&WorkerUse) -> Duration| {
            let most = outcome.workers.iter().map(used).max().unwrap_or_default();
            (most.as_secs_f64() / seconds).min(1.0)
        };
        Self {
            cpu_seconds,
            cpu_per_request: per_request(cpu_seconds, outcome.record.answered),
            busiest_worker: most(|worker| worker.cpu),
            waiting_worker: most(|worker| worker.waited),
            is_limit: most(|worker| worker.cpu + worker.waited) > BUSY,
        }
    }
}

impl ServerCost {
    fn of(load: &Load, outcome: &Outcome) -> Option<Self> {
        let (pid, server) = (load.server?, outcome.server?);
        let cpu_seconds = server.cpu.as_secs_f64();
        Some(Self {
            pid,
            cpu_seconds,
            is_incomplete: server.is_incomplete,
            cpu_per_request: per_request(cpu_seconds, outcome.record.answered),
            resident_before: server.resident_before_bytes,
            resident_after: server.resident_after_bytes,
            resident_max: server.resident_max_bytes,
        })
    }
}

/// The last part may be shorter than the others; what is left of it then is not long enough for a rate.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn parts(outcome: &Outcome) -> Vec<Part> {
    let length = outcome.over_time.part_length();
    let parts = outcome.over_time.parts().filter(|(at, _)| *at < outcome.elapsed);
    parts
        .map(|(at, part)| {
            let seconds = length.min(outcome.elapsed.saturating_sub(at)).max(length / 4).as_secs_f64();
            Part {
                at_seconds: at.as_secs_f64(),
                rate: part.answered as f64 / seconds,
                failed: part.failed,
                p50: times::microseconds(part.response.percentile(50.0)),
                p99: times::microseconds(part.response.percentile(99.0)),
                max: times::microseconds(part.response.max()),
            }
        })
        .collect()
}

/// The format of reports.
pub(crate) const FORMAT: &str = "thruway-bench/1";

/// A thread that uses more of its core than this, or waits for one when it does not, has no time to be exact.
const BUSY: f64 = 0.95;

/// A thread with a core of its own hardly waits; one that shares it waits for as long as others run.
const LATE: f64 = 0.1;
