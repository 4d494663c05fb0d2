//! The measured figures of one load, and their metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thruway_bench::report::{Handshakes, Report, bytes, rate, time};
use thruway_bench::statistics::{Ratio, Summary};

/// The figures of one load.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Number of requests with the expected response.
    pub(crate) answered: u64,
    /// Number of failed requests.
    pub(crate) failed: u64,
    /// Description of the first kind of failure; empty without failures.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) failure: String,
    /// Measured time in seconds.
    pub(crate) seconds: f64,
    /// `true` if the load generator, not the server, was probably the bottleneck.
    pub(crate) is_generator_limit: bool,
    /// Number of connections that overflowed accept queues on this machine.
    pub(crate) listen_drops: u64,
    /// Number of TLS handshakes. Absent with keep-alive or without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handshakes: Option<Handshakes>,
    /// The known values of the metrics, rounded to four digits.
    #[serde(flatten)]
    pub(crate) values: BTreeMap<Metric, f64>,
}

/// A metric of a load. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Expected responses per second.
    Rate,
    /// CPU time of the server per response.
    ServerCpu,
    /// CPU time of the load generator per response.
    GeneratorCpu,
    /// Sum of the CPU times of client and server per response.
    BothCpu,
    /// For a bridge, CPU time per response without the servers behind the bridge. For a command, CPU time per
    /// run.
    ProgramCpu,
    Mean,
    P50,
    /// P50 minus the P50 of the server without a gateway.
    AddedP50,
    P90,
    P95,
    P98,
    P99,
    Longest,
    Shortest,
    Deviation,
    /// Received bytes per second.
    ReceivedRate,
    /// Growth of the server's resident memory per connection, in bytes, if the case reports it.
    MemoryPerConnection,
    /// Growth of the server's resident memory per idle MCP session, in bytes.
    MemoryPerSession,
    HandshakeRate,
    /// Growth of the server's anonymous memory during the load, in bytes. Can be negative.
    MemoryGrowth,
}

impl Figures {
    /// Returns the figures of a report. For cases that report memory, `memory_before` is the server's
    /// resident memory before the connections open.
    pub(crate) fn of(report: &Report, memory_before: Option<u64>) -> Self {
        let server = report.server.as_ref();
        let handshakes =
            report.handshakes.as_ref().filter(|handshakes| handshakes.handshakes_per_second > 0.0);
        let failure = report.errors.first();
        let figures = Self {
            answered: report.requests.answered,
            failed: report.failures(),
            failure: match failure.filter(|_| !report.is_clean()) {
                Some(error) => format!("{} {}", error.kind, error.example),
                None if report.is_stalled => {
                    "the server had stopped responding when the load ended".to_owned()
                }
                None => String::new(),
            },
            seconds: rounded(report.elapsed_seconds),
            is_generator_limit: report.generator.is_limit,
            listen_drops: report.listen_queue.map_or(0, |found| found.drops.max(found.overflows)),
            handshakes: handshakes.cloned(),
            values: BTreeMap::new(),
        };
        let figures = figures
            .with(Metric::Rate, report.achieved_requests_per_second)
            .with(Metric::ReceivedRate, report.received_rate())
            .with(Metric::HandshakeRate, handshakes.map(|handshakes| handshakes.handshakes_per_second))
            .with(Metric::ServerCpu, server.and_then(|server| server.cpu_us_per_request))
            .with(Metric::GeneratorCpu, report.generator.cpu_us_per_request)
            .with(
                Metric::MemoryPerConnection,
                memory_before.map(|before| memory_per_connection(report, before)),
            );
        // Without responses, there are no response times.
        if figures.answered == 0 {
            return figures;
        }
        let times = &report.response_time;
        figures
            .with(Metric::Mean, times.mean_us)
            .with(Metric::P50, times.p50_us)
            .with(Metric::P90, times.p90_us)
            .with(Metric::P95, times.p95_us)
            .with(Metric::P98, times.p98_us)
            .with(Metric::P99, times.p99_us)
            .with(Metric::Longest, times.max_us)
            .with(Metric::Shortest, times.min_us)
            .with(Metric::Deviation, times.deviation_us)
    }

    /// Returns the figures of a load generator that measures only the number of responses and the time.
    pub(crate) fn counted(answered: u64, seconds: f64) -> Self {
        let figures = Self { answered, seconds: rounded(seconds), ..Self::default() };
        figures.with(Metric::Rate, as_f64(answered) / seconds)
    }

    /// Adds the value of a metric, if known.
    pub(crate) fn with(mut self, metric: Metric, value: impl Into<Option<f64>>) -> Self {
        self.values.extend(value.into().map(|value| (metric, rounded(value))));
        self
    }

    /// Adds the CPU time of the whole load, divided by the number of responses, if known.
    pub(crate) fn with_cpu(self, metric: Metric, cpu: Option<Duration>) -> Self {
        let count = as_f64(self.answered.max(1));
        self.with(metric, cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count))
    }

    /// Returns `true` if requests succeeded and none failed.
    pub(crate) const fn is_clean(&self) -> bool {
        self.answered > 0 && self.failed == 0
    }
}

/// Returns the growth of the server's memory per connection.
fn memory_per_connection(report: &Report, before: u64) -> f64 {
    let after = report.server.as_ref().map_or(before, |server| server.resident_max_bytes);
    as_f64(after.saturating_sub(before)) / as_f64(report.settings.connections)
}

/// Returns a count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Rounds a value to four digits, because more digits are noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Metric {
    /// Returns the name of the metric in reports.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::ServerCpu => "server CPU per request",
            Self::GeneratorCpu => "generator CPU per request",
            Self::BothCpu => "CPU of client and server",
            Self::ProgramCpu => "CPU of the program alone",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::AddedP50 => "added p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P98 => "p98",
            Self::P99 => "p99",
            Self::Longest => "longest",
            Self::Shortest => "shortest",
            Self::Deviation => "deviation",
            Self::ReceivedRate => "received/s",
            Self::MemoryPerConnection => "memory per connection",
            Self::MemoryPerSession => "memory per session",
            Self::HandshakeRate => "handshakes/s",
            Self::MemoryGrowth => "memory growth",
        }
    }

    /// Returns a value with its unit.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes are shown")]
    pub(crate) fn format(self, value: f64) -> String {
        match self {
            Self::Rate | Self::HandshakeRate => rate(value),
            Self::MemoryGrowth if value < 0.0 => format!("−{}", bytes(-value as u64)),
            Self::AddedP50 if value < 0.0 => format!("−{}", time(-value)),
            Self::ReceivedRate | Self::MemoryPerConnection | Self::MemoryPerSession | Self::MemoryGrowth => {
                bytes(value as u64)
            }
            _ => time(value),
        }
    }

    /// Returns `true` if higher values are better.
    pub(crate) const fn is_more_better(self) -> bool {
        matches!(self, Self::Rate | Self::ReceivedRate | Self::HandshakeRate)
    }

    /// Returns the value of the metric, if known.
    pub(crate) fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::BothCpu => Some(Self::ServerCpu.of(figures)? + Self::GeneratorCpu.of(figures)?),
            metric => figures.values.get(&metric).copied(),
        }
    }

    /// Returns the median of the rounds, with its unit.
    pub(crate) fn median(self, rounds: &[Figures]) -> Option<String> {
        Summary::of(&self.values(rounds)?).map(|summary| self.format(summary.median))
    }

    /// Returns the ratio of `ours` to `theirs` over the pairs of rounds. Returns `None` for too few rounds,
    /// or if requests failed, because a failed request costs less work.
    pub(crate) fn ratio(self, ours: &[Figures], theirs: &[Figures]) -> Option<Ratio> {
        let pairs: Vec<_> = self.clean_values(ours)?.into_iter().zip(self.clean_values(theirs)?).collect();
        if pairs.len() < PAIRS_MIN { None } else { Ratio::of_pairs(&pairs) }
    }

    /// Returns the values of all rounds, or `None` if a request failed.
    pub(crate) fn clean_values(self, rounds: &[Figures]) -> Option<Vec<f64>> {
        self.values(rounds).filter(|_| rounds.iter().all(Figures::is_clean))
    }

    fn values(self, rounds: &[Figures]) -> Option<Vec<f64>> {
        rounds.iter().map(|figures| self.of(figures)).collect()
    }
}

/// Minimum number of pairs of rounds for a ratio.
const PAIRS_MIN: usize = 3;
