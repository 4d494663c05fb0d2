//! The figures of one load, as far as the suite keeps them, and the metrics that are read from them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use thruway_bench::report::{Handshakes, Report, bytes, rate, time};
use thruway_bench::statistics::{Ratio, Summary};

/// The figures of one load. Times are in microseconds; four digits are kept.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Figures {
    /// Requests that were answered as expected.
    pub(crate) answered: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// Description of the first kind of failure; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) failure: String,
    /// Seconds that were measured.
    pub(crate) seconds: f64,
    /// Requests a second that were answered as expected.
    pub(crate) rate: f64,
    /// Times of requests; absent where there was no answer, or another load generator tells none that could
    /// be compared.
    pub(crate) times: Option<SpreadOfTimes>,
    /// Bytes a second that were received.
    pub(crate) received_rate: Option<f64>,
    /// Handshakes of TLS; absent where connections persist, or without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) handshakes: Option<Handshakes>,
    /// CPU time of the server for each answer.
    pub(crate) server_cpu: Option<f64>,
    /// CPU time of the load generator for each answer.
    pub(crate) generator_cpu: Option<f64>,
    /// `true` if the load generator, and not the server, was likely the limit.
    pub(crate) is_generator_limit: bool,
    /// Connections for which listeners of the machine had no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) listen_drops: u64,
    /// Growth of the server's resident memory for each connection, in bytes, for cases that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_per_connection: Option<f64>,
    /// CPU time of the program without the servers behind it, for each answer; of a command, for each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program_cpu: Option<f64>,
    /// Growth of the anonymous memory of the server over the load, in bytes; may be negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_growth: Option<f64>,
}

/// Times of requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "JSON members carry units")]
pub(crate) struct SpreadOfTimes {
    /// The shortest.
    pub(crate) min_us: f64,
    /// Their mean.
    pub(crate) mean_us: f64,
    /// Their standard deviation.
    pub(crate) deviation_us: f64,
    /// Half of them were not longer.
    pub(crate) p50_us: f64,
    /// 90 of 100.
    pub(crate) p90_us: f64,
    /// 95 of 100.
    pub(crate) p95_us: f64,
    /// 98 of 100.
    pub(crate) p98_us: f64,
    /// 99 of 100.
    pub(crate) p99_us: f64,
    /// The longest.
    pub(crate) max_us: f64,
}

/// A figure of a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    Rate,
    ServerCpu,
    GeneratorCpu,
    Mean,
    P50,
    P90,
    P95,
    P98,
    P99,
    Longest,
    Shortest,
    Deviation,
    ReceivedRate,
    MemoryPerConnection,
    HandshakeRate,
    /// CPU time of client and server together.
    BothCpu,
    ProgramCpu,
    MemoryGrowth,
}

impl Figures {
    /// Returns the figures of a report; `memory_before` is the resident memory of the server before the
    /// connections, for cases that report their memory.
    #[expect(clippy::cast_precision_loss, reason = "four digits are kept")]
    pub(crate) fn of(report: &Report, memory_before: Option<u64>) -> Self {
        let times = &report.response_time;
        let server = report.server.as_ref();
        let grown = |before: u64| {
            let after = server.map_or(before, |server| server.resident_max_bytes);
            after.saturating_sub(before) as f64 / report.settings.connections as f64
        };
        let handshakes = report.handshakes.as_ref().filter(|handshakes| handshakes.per_second > 0.0);
        let failure = report.errors.first();
        // Of no answer there is no time, and nothing that it has cost.
        let has_answers = report.requests.answered > 0;
        Self {
            answered: report.requests.answered,
            failed: report.failures(),
            failure: match failure.filter(|_| !report.is_clean()) {
                Some(error) => format!("{} {}", error.kind, error.example),
                None if report.is_stalled => "not answered any more when the load ended".to_owned(),
                None => String::new(),
            },
            seconds: kept(report.elapsed_seconds),
            rate: kept(report.achieved_requests_per_second),
            times: has_answers.then(|| SpreadOfTimes {
                min_us: kept(times.min_us),
                mean_us: kept(times.mean_us),
                deviation_us: kept(times.deviation_us),
                p50_us: kept(times.p50_us),
                p90_us: kept(times.p90_us),
                p95_us: kept(times.p95_us),
                p98_us: kept(times.p98_us),
                p99_us: kept(times.p99_us),
                max_us: kept(times.max_us),
            }),
            received_rate: Some(kept(report.received_rate())),
            handshakes: handshakes.map(|handshakes| Handshakes {
                per_second: kept(handshakes.per_second),
                ..handshakes.clone()
            }),
            server_cpu: server.and_then(|server| server.cpu_us_per_request).map(kept),
            generator_cpu: report.generator.cpu_us_per_request.map(kept),
            is_generator_limit: report.generator.is_limit,
            listen_drops: report.listen_queue.map_or(0, |found| found.drops.max(found.overflows)),
            memory_per_connection: memory_before.map(|before| kept(grown(before))),
            ..Self::default()
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as `skip_serializing_if` wants it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the microseconds of CPU time for each of `count` requests.
pub(crate) fn cpu_each(cpu: Duration, count: u64) -> f64 {
    kept(cpu.as_secs_f64() * 1e6 / as_f64(count.max(1)))
}

/// Returns a count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Four digits, which is what figures are worth.
pub(crate) fn kept(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Figures {
    /// Returns the figures of a load generator that only counts.
    pub(crate) fn counted(answered: u64, seconds: f64) -> Self {
        let rate = kept(as_f64(answered) / seconds);
        Self { answered, seconds: kept(seconds), rate, ..Self::default() }
    }

    /// Returns `true` if requests were answered and none failed.
    pub(crate) const fn is_clean(&self) -> bool {
        self.answered > 0 && self.failed == 0
    }
}

impl Metric {
    /// Returns its name in reports.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::ServerCpu => "server CPU per request",
            Self::GeneratorCpu => "generator CPU per request",
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
            Self::BothCpu => "CPU of client and server",
            Self::ProgramCpu => "CPU of the program alone",
            Self::MemoryGrowth => "memory growth",
        }
    }

    /// A value with its unit.
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

    /// The figure, where there is one.
    pub(crate) fn of(self, figures: &Figures) -> Option<f64> {
        let times = figures.times.as_ref();
        match self {
            Self::Rate => Some(figures.rate),
            Self::ServerCpu => figures.server_cpu,
            Self::GeneratorCpu => figures.generator_cpu,
            Self::BothCpu => Some(kept(figures.server_cpu? + figures.generator_cpu?)),
            Self::ProgramCpu => figures.program_cpu,
            Self::MemoryGrowth => figures.memory_growth,
            Self::ReceivedRate => figures.received_rate,
            Self::MemoryPerConnection => figures.memory_per_connection,
            Self::HandshakeRate => figures.handshakes.as_ref().map(|handshakes| handshakes.per_second),
            Self::Mean => times.map(|times| times.mean_us),
            Self::P50 => times.map(|times| times.p50_us),
            Self::P90 => times.map(|times| times.p90_us),
            Self::P95 => times.map(|times| times.p95_us),
            Self::P98 => times.map(|times| times.p98_us),
            Self::P99 => times.map(|times| times.p99_us),
            Self::Longest => times.map(|times| times.max_us),
            Self::Shortest => times.map(|times| times.min_us),
            Self::Deviation => times.map(|times| times.deviation_us),
        }
    }

    /// The median of some rounds and their spread.
    pub(crate) fn summary(self, rounds: &[Figures]) -> Option<Summary> {
        Summary::of(&self.values(rounds)?)
    }

    /// Returns `ours` as a multiple of `theirs`, round by round; `None` for too few rounds, or if requests
    /// failed: a failed request does less work.
    pub(crate) fn ratio(self, ours: &[Figures], theirs: &[Figures]) -> Option<Ratio> {
        let pairs: Vec<_> = self.clean_values(ours)?.into_iter().zip(self.clean_values(theirs)?).collect();
        if pairs.len() < PAIRS_MIN { None } else { Ratio::of_pairs(&pairs) }
    }

    /// The values of all rounds, if no request failed in any.
    pub(crate) fn clean_values(self, rounds: &[Figures]) -> Option<Vec<f64>> {
        self.values(rounds).filter(|_| rounds.iter().all(Figures::is_clean))
    }

    /// The values of all rounds.
    pub(crate) fn values(self, rounds: &[Figures]) -> Option<Vec<f64>> {
        rounds.iter().map(|figures| self.of(figures)).collect()
    }
}

/// With fewer pairs of rounds a ratio says too little.
const PAIRS_MIN: usize = 3;
