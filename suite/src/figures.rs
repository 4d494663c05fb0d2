//! The figures of one load, and the metrics that are read from them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thruway_bench::report::{Handshakes, Report, bytes, rate, time};
use thruway_bench::statistics::{Ratio, Summary};

/// The figures of one load.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Requests that were answered as expected.
    pub(crate) answered: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// Description of the first kind of failure; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) failure: String,
    /// Seconds that were measured.
    pub(crate) seconds: f64,
    /// `true` if the load generator, and not the server, was likely the limit.
    pub(crate) is_generator_limit: bool,
    /// Connections for which listeners of the machine had no room.
    pub(crate) listen_drops: u64,
    /// Handshakes of TLS; absent where connections persist, or without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handshakes: Option<Handshakes>,
    /// The values of the metrics, as far as they are known: four digits.
    #[serde(flatten)]
    pub(crate) values: BTreeMap<Metric, f64>,
}

/// A figure of a load. Times are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Requests a second that were answered as expected.
    Rate,
    /// CPU time of the server for each answer.
    ServerCpu,
    /// CPU time of the load generator for each answer.
    GeneratorCpu,
    /// CPU time of client and server together.
    BothCpu,
    /// CPU time of the program without the servers behind it, for each answer; of a command, for each run.
    ProgramCpu,
    Mean,
    P50,
    P90,
    P95,
    P98,
    P99,
    Longest,
    Shortest,
    Deviation,
    /// Bytes a second that were received.
    ReceivedRate,
    /// Growth of the server's resident memory for each connection, in bytes, for cases that report it.
    MemoryPerConnection,
    HandshakeRate,
    /// Growth of the anonymous memory of the server over the load, in bytes; may be negative.
    MemoryGrowth,
}

impl Figures {
    /// Returns the figures of a report; `memory_before` is the resident memory of the server before the
    /// connections, for cases that report their memory.
    pub(crate) fn of(report: &Report, memory_before: Option<u64>) -> Self {
        let server = report.server.as_ref();
        let handshakes = report.handshakes.as_ref().filter(|handshakes| handshakes.per_second > 0.0);
        let failure = report.errors.first();
        let figures = Self {
            answered: report.requests.answered,
            failed: report.failures(),
            failure: match failure.filter(|_| !report.is_clean()) {
                Some(error) => format!("{} {}", error.kind, error.example),
                None if report.is_stalled => "not answered any more when the load ended".to_owned(),
                None => String::new(),
            },
            seconds: kept(report.elapsed_seconds),
            is_generator_limit: report.generator.is_limit,
            listen_drops: report.listen_queue.map_or(0, |found| found.drops.max(found.overflows)),
            handshakes: handshakes.cloned(),
            values: BTreeMap::new(),
        };
        let figures = figures
            .with(Metric::Rate, report.achieved_requests_per_second)
            .with(Metric::ReceivedRate, report.received_rate())
            .with(Metric::HandshakeRate, handshakes.map(|handshakes| handshakes.per_second))
            .with(Metric::ServerCpu, server.and_then(|server| server.cpu_us_per_request))
            .with(Metric::GeneratorCpu, report.generator.cpu_us_per_request)
            .with(Metric::MemoryPerConnection, memory_before.map(|before| memory_each(report, before)));
        // Of no answer there is no time.
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

    /// Returns the figures of a load generator that only counts.
    pub(crate) fn counted(answered: u64, seconds: f64) -> Self {
        let figures = Self { answered, seconds: kept(seconds), ..Self::default() };
        figures.with(Metric::Rate, as_f64(answered) / seconds)
    }

    /// Adds the value of a metric, if there is one.
    pub(crate) fn with(mut self, metric: Metric, value: impl Into<Option<f64>>) -> Self {
        self.values.extend(value.into().map(|value| (metric, kept(value))));
        self
    }

    /// Adds the part of each answer in a CPU time, if that is known.
    pub(crate) fn with_cpu(self, metric: Metric, cpu: Option<Duration>) -> Self {
        let count = as_f64(self.answered.max(1));
        self.with(metric, cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count))
    }

    /// Returns `true` if requests were answered and none failed.
    pub(crate) const fn is_clean(&self) -> bool {
        self.answered > 0 && self.failed == 0
    }
}

/// Returns the growth of the server's memory for each connection.
fn memory_each(report: &Report, before: u64) -> f64 {
    let after = report.server.as_ref().map_or(before, |server| server.resident_max_bytes);
    as_f64(after.saturating_sub(before)) / as_f64(report.settings.connections)
}

/// Returns a count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Returns four digits of a value: more digits of a figure mean nothing.
fn kept(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Metric {
    /// Returns its name in reports.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::ServerCpu => "server CPU per request",
            Self::GeneratorCpu => "generator CPU per request",
            Self::BothCpu => "CPU of client and server",
            Self::ProgramCpu => "CPU of the program alone",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P98 => "p98",
            Self::P99 => "p99",
            Self::Longest => "longest",
            Self::Shortest => "shortest",
            Self::Deviation => "deviation",
            Self::ReceivedRate => "received/s",
            Self::MemoryPerConnection => "memory per connection",
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
            Self::ReceivedRate | Self::MemoryPerConnection | Self::MemoryGrowth => bytes(value as u64),
            _ => time(value),
        }
    }

    /// Returns `true` if more is better.
    pub(crate) const fn is_more_better(self) -> bool {
        matches!(self, Self::Rate | Self::ReceivedRate | Self::HandshakeRate)
    }

    /// Returns the figure, where there is one.
    pub(crate) fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::BothCpu => Some(Self::ServerCpu.of(figures)? + Self::GeneratorCpu.of(figures)?),
            metric => figures.values.get(&metric).copied(),
        }
    }

    /// Returns the median of some rounds, with its unit.
    pub(crate) fn median(self, rounds: &[Figures]) -> Option<String> {
        Summary::of(&self.values(rounds)?).map(|summary| self.format(summary.median))
    }

    /// Returns `ours` as a multiple of `theirs`, round by round; `None` for too few rounds, or if requests
    /// failed: a failed request does less work.
    pub(crate) fn ratio(self, ours: &[Figures], theirs: &[Figures]) -> Option<Ratio> {
        let pairs: Vec<_> = self.clean_values(ours)?.into_iter().zip(self.clean_values(theirs)?).collect();
        if pairs.len() < PAIRS_MIN { None } else { Ratio::of_pairs(&pairs) }
    }

    /// Returns the values of all rounds, if no request failed in any.
    pub(crate) fn clean_values(self, rounds: &[Figures]) -> Option<Vec<f64>> {
        self.values(rounds).filter(|_| rounds.iter().all(Figures::is_clean))
    }

    fn values(self, rounds: &[Figures]) -> Option<Vec<f64>> {
        rounds.iter().map(|figures| self.of(figures)).collect()
    }
}

/// With fewer pairs of rounds a ratio says too little.
const PAIRS_MIN: usize = 3;
