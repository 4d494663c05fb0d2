//! Results of a load, as a value that can be serialized: the schema of `--output json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::rate;
use super::times::TimesReport;
use crate::failure::FailureKind;
use crate::listen_queue::ListenQueue;

/// A report. Fields may be added to it; none changes its meaning or its unit without another `format`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `thruway-bench/2`.
    pub format: String,
    /// Target, as given on the command line.
    pub target: String,
    /// Settings of the load.
    pub settings: Settings,
    /// Seconds that were measured: until the last request was answered or had failed, if that was after the
    /// end.
    pub elapsed_seconds: f64,
    /// `true` if the load was interrupted.
    pub is_interrupted: bool,
    /// `true` if the load ended early because no connection to the server could be opened.
    pub is_given_up: bool,
    /// `true` if the server likely stopped to respond before the end of a closed loop: requests that were cut
    /// off waited much longer than others took.
    #[serde(default)]
    pub is_stalled: bool,
    /// Warnings for readers: reasons to doubt the figures.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Requests a second that were meant to start; absent in a closed loop.
    pub offered_requests_per_second: Option<f64>,
    /// Requests a second that were due in fact, which for a Poisson process is a matter of chance; absent in
    /// a closed loop.
    #[serde(default)]
    pub due_requests_per_second: Option<f64>,
    /// Requests a second that were answered as expected. In an open loop, of those that were due in the
    /// measured time, whenever their answers came; less if the server has fallen behind more and more.
    pub achieved_requests_per_second: f64,
    /// Requests by what became of them.
    pub requests: RequestCounts,
    /// Complete answers by status, the lowest first.
    pub statuses: Vec<Status>,
    /// Requests that failed, by kind.
    pub errors: Vec<ErrorCount>,
    /// Bytes on the network.
    pub bytes: ByteCounts,
    /// Connections.
    pub connections: Connections,
    /// Handshakes of TLS; absent without.
    #[serde(default)]
    pub handshakes: Option<Handshakes>,
    /// Times from the actual start of a request to the end of its answer. Requests that timed out count with
    /// the time that was waited.
    pub service_time: TimesReport,
    /// Times from the intended start of a request to the end of its answer. Requests that timed out, were not
    /// answered or never sent before the end count with the time that was waited. The same as `service_time`
    /// in a closed loop; there, requests that were cut off at the end count with what they had waited, if
    /// that changes anything: see `at_least_from_us`.
    pub response_time: TimesReport,
    /// Times from the start of a publication until a subscriber was told of it, for each subscriber; absent
    /// of other loads. There `service_time` is the time until the last one was told.
    #[serde(default)]
    pub deliveries: Option<TimesReport>,
    /// Parts of equal duration.
    pub over_time: Vec<Part>,
    /// Resource use of the load generator.
    pub generator: Generator,
    /// Resource use of the server; absent if its process is unknown.
    pub server: Option<ServerCost>,
    /// Connections for which listeners had no room, of all listeners of the machine; absent if the server is
    /// on another one.
    #[serde(default)]
    pub listen_queue: Option<ListenQueue>,
}

/// Settings of a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// When requests start: `closed`, `constant` or `poisson`.
    pub pace: String,
    /// Requests a second that were meant to start; absent in a closed loop.
    #[serde(default)]
    pub requests_per_second: Option<f64>,
    /// Seed of the intervals between requests with the pace `poisson`.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Connections at the same time.
    pub connections: u64,
    /// Threads of the load generator.
    pub workers: u64,
    /// The version of HTTP: `1.1` or `2`. Absent of pipes.
    #[serde(default)]
    pub http_version: Option<String>,
    /// Requests on a connection that are not answered at the same time, at most: the depth of pipelines, or
    /// the number of streams.
    pub pipeline: u64,
    /// `true` if a connection carries more than one request.
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
    /// Requests with the expected response. In a closed loop that ends by the clock: all responses in the
    /// measured time, including those of requests that started in the warm-up. The times leave those out.
    pub answered: u64,
    /// Failed in any way; see `errors`.
    pub failed: u64,
    /// Requests in progress at the end of a closed loop. They are counted nowhere else.
    pub cut_off: u64,
    /// Sent again on another connection, because the server had announced to close the first; counted once
    /// elsewhere.
    pub sent_again: u64,
    /// Answered in an event stream, of those that were answered; messages of MCP only.
    #[serde(default)]
    pub event_streams: u64,
}

/// Number of responses with a status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The status.
    pub status: u16,
    /// Number.
    pub count: u64,
}

/// Number of failed requests of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Number.
    pub count: u64,
    /// Details of the first failure, for readers; may be empty.
    pub example: String,
}

/// Bytes on the network of requests with the expected response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ByteCounts {
    /// Bytes of requests, headers included.
    pub sent: u64,
    /// Bytes of responses, headers included.
    pub received: u64,
    /// Body bytes of responses.
    pub body: u64,
}

/// Connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Opened, before the start and while it went on.
    pub opened: u64,
    /// Number of concurrent HTTP/2 streams that the server allows, if it is lower than requested.
    #[serde(default)]
    pub streams_max: Option<u64>,
    /// That could not be opened before the start.
    pub missing: u64,
    /// Why the first of those could not.
    pub missing_because: Option<String>,
}

/// TLS handshakes in the measured time. Connections that were opened before the start are not included.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handshakes {
    /// Full handshakes, with certificates.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Full and resumed handshakes per second.
    pub per_second: f64,
}

/// A part of the time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// When it began, in seconds since the measuring began.
    pub at_seconds: f64,
    /// Requests with the expected response per second.
    pub requests_per_second: f64,
    /// Requests that failed.
    pub failed: u64,
    /// Median of the response times in microseconds.
    pub p50_us: f64,
    /// Their 99th percentile.
    pub p99_us: f64,
    /// The longest of them.
    pub max_us: f64,
}

/// Resource use of the load generator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// The same for each response, in microseconds; absent without expected responses.
    pub cpu_us_per_request: Option<f64>,
    /// The share of its core that the busiest thread used, at most 1.
    pub busiest_worker_share: f64,
    /// The share of the time in which a thread was ready to run and had no core, of the thread of which that
    /// is most.
    #[serde(default)]
    pub waiting_worker_share: f64,
    /// `true` if the load generator was likely the limit, and not the server.
    pub is_limit: bool,
}

/// Resource use of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// Its process.
    pub pid: u32,
    /// CPU time in seconds, with that of threads that have ended, of descendants, and of children that have
    /// ended and were waited for.
    pub cpu_seconds: f64,
    /// `true` if a part is missing, because processes ended without a parent that waited for them.
    #[serde(default)]
    pub is_incomplete: bool,
    /// The CPU time for each answer, in microseconds; absent if no request got the expected response.
    pub cpu_us_per_request: Option<f64>,
    /// Resident memory before the load, in bytes.
    pub resident_before_bytes: u64,
    /// Resident memory after.
    pub resident_after_bytes: u64,
    /// The most that was seen.
    pub resident_max_bytes: u64,
}

impl Report {
    /// The share that was achieved of what was due; `None` in a closed loop.
    pub fn achieved_share(&self) -> Option<f64> {
        self.due_requests_per_second.map(|due| self.achieved_requests_per_second / due.max(f64::MIN_POSITIVE))
    }

    /// Returns the received bytes per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn received_rate(&self) -> f64 {
        self.bytes.received as f64 / self.requests.answered.max(1) as f64 * self.achieved_requests_per_second
    }

    /// Returns `true` if each request got the expected response and the server still responded at the end.
    /// Requests that were due just before the end may stay unsent.
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

    /// Returns the number of requests that keep the load from being [clean](Self::is_clean): 0 only if it is.
    /// A few unsent requests that were due just before the end of an open loop are not failures.
    pub fn failures(&self) -> u64 {
        let is_silent = self.is_stalled || self.requests.answered == 0;
        let failed = self.requests.failed + if is_silent { self.requests.cut_off } else { 0 };
        if self.is_clean() { 0 } else { failed.max(1) }
    }
}

/// Returns the reason why written figures cannot be read. The names of Rust's types mean nothing to the
/// reader.
pub fn unreadable(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.strip_prefix("missing field ") {
        Some(member) => format!("it has no member {}", member.split(" at line").next().unwrap_or(member)),
        None if error.is_data() => "a value has the wrong type".to_owned(),
        None => format!("it is not valid JSON: {message}"),
    }
}

impl Settings {
    /// Returns the differences between the settings of two loads that make their results incomparable, each
    /// with both values. The duration and random arrivals do not count.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = self.decisive().into_iter().zip(other.decisive());
        let others = pairs.filter(|((_, here), (_, there))| here != there);
        others.map(|((name, here), (_, there))| format!("{name}: {here} instead of {there}")).collect()
    }

    fn decisive(&self) -> [(&'static str, String); 7] {
        [
            ("pace", self.pace.clone()),
            ("rate", self.requests_per_second.map_or_else(|| "any".to_owned(), rate)),
            ("connections", self.connections.to_string()),
            ("workers", self.workers.to_string()),
            ("version of HTTP", self.http_version.clone().unwrap_or_default()),
            ("concurrent requests of a connection", self.pipeline.to_string()),
            ("persistent connections", self.is_persistent.to_string()),
        ]
    }
}

impl Generator {
    /// Returns `true` if the load generator was the limit, or late: then rates and times are its own too.
    pub fn is_late(&self) -> bool {
        self.is_limit || self.waiting_worker_share > LATE
    }
}

/// The format of reports.
pub(crate) const FORMAT: &str = "thruway-bench/2";

/// A thread with a core of its own hardly waits; one that shares it waits for as long as others run.
const LATE: f64 = 0.1;
