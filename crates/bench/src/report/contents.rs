//! The report of a load as a serializable value. The JSON schema of `--output json` follows from this type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::figures::rate;
use super::stages::StageReport;
use super::steps::{IterationsReport, StepReport, UrlReport};
use super::thresholds::ThresholdReport;
use super::times::TimesReport;
use crate::failure::FailureKind;
use crate::listen_queue::ListenQueue;

/// The report of a load. Later versions may add members. If the meaning or the unit of a member changes,
/// `format` changes too.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of the JSON format: `thruway-bench/3`.
    pub format: String,
    /// Target, as given on the command line.
    pub target: String,
    /// Date, machine, version and command line. Absent if the program did not add them.
    #[serde(default)]
    pub environment: Option<Environment>,
    /// Settings of the load.
    pub settings: Settings,
    /// Measured time in seconds. The measured time includes the wait for the last responses after the end
    /// of the load.
    pub elapsed_seconds: f64,
    /// `true` if the load was interrupted.
    pub is_interrupted: bool,
    /// `true` if the load ended early because the server was not usable any more, for example because no
    /// connection could be opened.
    pub is_given_up: bool,
    /// `true` if the server probably stalled before the end of a closed loop. The sign of a stall is that
    /// requests without a response waited much longer than answered requests.
    #[serde(default)]
    pub is_stalled: bool,
    /// Reasons to doubt the results, as text for the user.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Scheduled number of requests per second. Absent in a closed loop, and if the load has a scenario.
    pub offered_requests_per_second: Option<f64>,
    /// Number of requests per second in the actual schedule. In a Poisson process, this number is random.
    /// Absent in a closed loop.
    #[serde(default)]
    pub due_requests_per_second: Option<f64>,
    /// Rate of requests with the expected response, in requests per second. In an open loop, a request counts
    /// if it was scheduled in the measured time, even if its response came later. If the server falls further
    /// and further behind the schedule, this rate does not exceed the rate that the server can sustain.
    pub achieved_requests_per_second: f64,
    /// Numbers of requests by their outcome.
    pub requests: RequestCounts,
    /// Numbers of complete responses by status, the lowest status first.
    pub statuses: Vec<Status>,
    /// Numbers of failed requests by kind of failure.
    pub errors: Vec<ErrorCount>,
    /// Bytes sent and received.
    pub bytes: ByteCounts,
    /// Numbers of opened and missing connections.
    pub connections: Connections,
    /// TLS handshakes. Absent if the load does not use TLS.
    #[serde(default)]
    pub handshakes: Option<Handshakes>,
    /// Times from the actual start of a request to the end of its response. For a request that timed out or
    /// got no response, the value is its waiting time. The end of a closed loop cuts off requests. If the
    /// waiting times of these requests change the result, the times include them: see `at_least_from_us`.
    pub service_time: TimesReport,
    /// Times from the scheduled start of a request to the end of its response. For a request that timed
    /// out, got no response, or was never sent, the value is its waiting time. In a closed loop, these
    /// times are the same as `service_time`.
    pub response_time: TimesReport,
    /// Times from the start of a publication to the notification of a subscriber. Each publication has one
    /// time per subscriber. Absent if the load has no publications. With publications, `service_time` is
    /// the time until the last subscriber was notified.
    #[serde(default)]
    pub deliveries: Option<TimesReport>,
    /// Results of each stage. Empty if the load has no stages.
    #[serde(default)]
    pub stages: Vec<StageReport>,
    /// Iterations of a scenario. Absent if the load has no scenario.
    #[serde(default)]
    pub iterations: Option<IterationsReport>,
    /// Results of each step of a scenario. Empty if the load has no scenario.
    #[serde(default)]
    pub steps: Vec<StepReport>,
    /// Results of each method and URL of a scenario. Steps with the same method and URL have one entry. Empty if the
    /// load has no scenario.
    #[serde(default)]
    pub urls: Vec<UrlReport>,
    /// The conditions of `--fail-if`, with their measured values. Empty if the load has no conditions.
    #[serde(default)]
    pub thresholds: Vec<ThresholdReport>,
    /// Progress over time, in parts of equal duration.
    pub over_time: Vec<Part>,
    /// Resource use of the load generator.
    pub generator: Generator,
    /// Resource use of the server. Absent if the process of the server is unknown.
    pub server: Option<ServerCost>,
    /// Numbers of connections that full listen queues dropped, for all listeners in the server's network
    /// namespace. Absent if the server is on another machine.
    #[serde(default)]
    pub listen_queue: Option<ListenQueue>,
}

/// Settings of a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The schedule of the requests: `closed`, `constant`, `poisson` or `stages`.
    pub pace: String,
    /// Unit of the schedule: `requests` or `iterations` (scenarios). It applies to `requests_per_second`, to
    /// `requests`, and to the rates in `stages`. Absent in reports of older versions.
    #[serde(default)]
    pub schedule_unit: Option<String>,
    /// The stages in the form of the option `--stages`. Present only if the pace is `stages`.
    #[serde(default)]
    pub stages: Option<String>,
    /// Scheduled number of requests per second, or the average of all stages. Absent in a closed loop. With a
    /// scenario, this is the number of iterations.
    #[serde(default)]
    pub requests_per_second: Option<f64>,
    /// Seed of the random intervals between requests. Present only if requests start at random times.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Number of concurrent connections.
    pub connections: u64,
    /// Number of threads of the load generator.
    pub workers: u64,
    /// The HTTP version: `1.1` or `2`. The version has no meaning if the load uses pipes. Absent in reports
    /// of older versions.
    #[serde(default)]
    pub http_version: Option<String>,
    /// Maximum number of requests in progress on a connection: the pipeline depth of HTTP/1.1, or the number
    /// of HTTP/2 streams.
    pub pipeline: u64,
    /// `true` if a connection serves several requests (keep-alive).
    pub is_persistent: bool,
    /// Planned duration of the measurement, in seconds. Absent if the load was limited by a number of
    /// requests.
    pub duration_seconds: Option<f64>,
    /// Planned number of measured requests. Absent if the load was limited by a duration. With a scenario, this
    /// is the number of iterations.
    pub requests: Option<u64>,
    /// Duration of the warm-up in seconds.
    pub warm_up_seconds: f64,
    /// Request timeout in seconds.
    pub timeout_seconds: f64,
}

/// Numbers of requests by their outcome.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestCounts {
    /// Number of requests with the expected response. In a closed loop with a duration, this number
    /// includes requests that started in the warm-up and were answered in the measured time. The times in
    /// the report do not include such requests.
    pub answered: u64,
    /// Number of requests that failed in any way; see `errors`.
    pub failed: u64,
    /// Number of requests in progress at the end of a closed loop. No other number includes these requests.
    pub cut_off: u64,
    /// Number of requests that were sent again on another connection, because the server announced that it
    /// closes the first connection. The other members count such a request once.
    pub sent_again: u64,
    /// Number of answered requests with a response in an event stream. Always 0 if the load does not send
    /// MCP messages.
    #[serde(default)]
    pub event_streams: u64,
}

/// Number of responses with one HTTP status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The HTTP status.
    pub status: u16,
    /// Number of responses with this status.
    pub count: u64,
}

/// Number of failed requests of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Number of failures of this kind.
    pub count: u64,
    /// Details of the first failure, as text for the user. This text may be empty.
    pub example: String,
}

/// Numbers of bytes that were sent and received for requests with the expected response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ByteCounts {
    /// Bytes of requests, including header sections.
    pub sent_bytes: u64,
    /// Bytes of responses, including header sections.
    pub received_bytes: u64,
    /// Body bytes of responses.
    pub body_bytes: u64,
}

/// Numbers of opened and missing connections of a load.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Number of connections opened before the start and during the load.
    pub opened: u64,
    /// Maximum number of concurrent HTTP/2 streams that the server allows on a connection. Absent if the
    /// server allows at least `pipeline` streams.
    #[serde(default)]
    pub streams_max: Option<u64>,
    /// Number of connections that could not be opened before the start.
    pub missing: u64,
    /// Reason why one of the missing connections could not be opened.
    pub missing_because: Option<String>,
}

/// TLS handshakes in the measured time. Connections that were opened before the start are not included.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handshakes {
    /// Number of full handshakes, in which the server sent its certificate.
    pub full: u64,
    /// Number of handshakes that resumed a session.
    pub resumed: u64,
    /// Number of full and resumed handshakes per second.
    pub handshakes_per_second: f64,
}

/// One part of the measured time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Start of the part, in seconds since the measurement began.
    pub at_seconds: f64,
    /// Rate of requests with the expected response, in requests per second.
    pub requests_per_second: f64,
    /// Number of failed requests.
    pub failed: u64,
    /// Median of the response times in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the response times in microseconds.
    pub p99_us: f64,
    /// Longest response time in microseconds.
    pub max_us: f64,
}

/// Resource use of the load generator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// CPU time in seconds.
    pub cpu_seconds: f64,
    /// CPU time per answered request, in microseconds. Absent if no request got the expected response.
    pub cpu_us_per_request: Option<f64>,
    /// Share of a CPU core that the busiest thread used, at most 1.
    pub busiest_worker_share: f64,
    /// Share of the measured time in which a thread was ready to run but had no CPU core. The value belongs
    /// to the thread that waited most.
    #[serde(default)]
    pub waiting_worker_share: f64,
    /// `true` if the load generator, not the server, was probably the bottleneck.
    pub is_limit: bool,
}

/// Resource use of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// The id of the server's process.
    pub pid: u32,
    /// CPU time in seconds. The CPU time includes ended threads, running descendants, and ended children
    /// after their parent called `wait`.
    pub cpu_seconds: f64,
    /// `true` if a part of the CPU time is missing, because a process ended and its parent did not call
    /// `wait`.
    #[serde(default)]
    pub is_incomplete: bool,
    /// CPU time per answered request, in microseconds. Absent if no request got the expected response.
    pub cpu_us_per_request: Option<f64>,
    /// Resident memory at the start of the measured time, in bytes.
    pub resident_before_bytes: u64,
    /// Resident memory at the end of the measured time, in bytes.
    pub resident_after_bytes: u64,
    /// Highest measured resident memory, in bytes.
    pub resident_max_bytes: u64,
}

impl Report {
    /// Returns the report with its environment.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment: Some(environment), ..self }
    }

    /// Returns `true` if requests or iterations started on a schedule.
    pub(super) fn is_open(&self) -> bool {
        let iterations = self.iterations.as_ref();
        let offered = iterations.and_then(|iterations| iterations.offered_iterations_per_second);
        self.offered_requests_per_second.or(offered).is_some()
    }

    /// Returns the achieved rate divided by the rate of due requests, or `None` in a closed loop.
    pub fn achieved_share(&self) -> Option<f64> {
        self.due_requests_per_second.map(|due| self.achieved_requests_per_second / due.max(f64::MIN_POSITIVE))
    }

    /// Returns the received bytes per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn received_rate(&self) -> f64 {
        self.bytes.received_bytes as f64 / self.requests.answered.max(1) as f64
            * self.achieved_requests_per_second
    }

    /// Returns `true` if each request got the expected response and the server still responded at the end.
    /// One unsent request per connection is allowed, because a request may be scheduled just before the end.
    pub fn is_clean(&self) -> bool {
        let at_the_end = |error: &ErrorCount| {
            error.kind == FailureKind::Unsent && error.count <= self.settings.connections
        };
        self.requests.answered > 0
            && !self.is_given_up
            && !self.is_stalled
            && self.errors.iter().all(at_the_end)
    }

    /// Returns `true` if requests failed for a reason that a late load generator cannot cause.
    pub fn has_server_failures(&self) -> bool {
        self.errors.iter().any(|error| error.kind.is_of_server())
    }

    /// Returns the number of failed requests, or 0 if the load is [clean](Self::is_clean). The result is at
    /// least 1 if the load is not clean.
    pub fn failures(&self) -> u64 {
        let is_silent = self.is_stalled || self.requests.answered == 0;
        let failed = self.requests.failed + if is_silent { self.requests.cut_off } else { 0 };
        if self.is_clean() { 0 } else { failed.max(1) }
    }
}

/// Describes why JSON could not be read. Replaces the messages of `serde_json` that contain names of Rust
/// types, because users do not know these types.
pub fn unreadable(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.strip_prefix("missing field ") {
        Some(member) => format!("it has no member {}", member.split(" at line").next().unwrap_or(member)),
        None if error.is_data() => "a value has the wrong type".to_owned(),
        None => format!("it is not valid JSON: {message}"),
    }
}

impl Settings {
    /// Describes the differences between two settings that make the results incomparable. Each description
    /// contains both values. Ignores the seed, the limit, the warm-up and the timeout.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = self.decisive().into_iter().zip(other.decisive());
        let others = pairs.filter(|((_, here), (_, there))| here != there);
        others.map(|((name, here), (_, there))| format!("{name}: {here} instead of {there}")).collect()
    }

    fn decisive(&self) -> [(&'static str, String); 8] {
        [
            ("pace", self.pace.clone()),
            ("stages", self.stages.clone().unwrap_or_else(|| "none".to_owned())),
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
    /// Returns `true` if the load generator was late or was the bottleneck. In this case, the measured
    /// rates and times also depend on the load generator.
    pub fn is_late(&self) -> bool {
        self.is_limit || self.waiting_worker_share > LATE
    }
}

/// The version of the JSON format of reports.
pub(crate) const FORMAT: &str = "thruway-bench/3";

/// Maximum acceptable share of the measured time that a thread spends waiting for a CPU core. A thread on a
/// separate core hardly waits, but a thread on a shared core waits while other threads run.
const LATE: f64 = 0.1;
