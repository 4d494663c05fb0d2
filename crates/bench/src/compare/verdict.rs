//! The candidates of a comparison with their figures, and the verdict about each pair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{Part, Report, rate, time};
use crate::statistics::{Ratio, Summary};

/// A figure that is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Requests with the expected response per second.
    #[serde(rename = "achieved_requests_per_second")]
    AchievedRate,
    /// The median of the response times in microseconds.
    #[serde(rename = "response_p50_us")]
    ResponseP50,
    /// The 99th percentile of the response times in microseconds.
    #[serde(rename = "response_p99_us")]
    ResponseP99,
    /// CPU time of the server for each response, in microseconds; only for servers with a known process.
    #[serde(rename = "server_cpu_us")]
    ServerCpu,
}

/// Result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, and the whole interval is, which covers 95 % at least.
    Faster,
    /// Worse, and the whole interval is, which covers 95 % at least.
    Slower,
    /// Better than the baseline, and the whole interval is, which allows for some drift. Whether the server
    /// or the machine has changed since the baseline is not certain.
    LikelyFaster,
    /// Worse than the baseline, and the whole interval is, which allows for some drift. Whether the server or
    /// the machine has changed since the baseline is not certain.
    LikelySlower,
    /// The interval holds both, or there were too few rounds for a claim.
    NoDifferenceShown,
    /// Against a baseline: the load generator was late or the limit in most rounds of one run, and not of the
    /// other.
    GeneratorLate,
    /// Requests to one of them failed, so its figures are not those of the same work.
    Failed,
}

/// One of those that are compared, and its figures in each round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Name.
    pub name: String,
    /// Its figures, by round.
    pub rounds: Vec<Sample>,
}

/// The figures of one round.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// See [`Metric::AchievedRate`].
    pub achieved_requests_per_second: f64,
    /// See [`Metric::ResponseP50`].
    pub response_p50_us: f64,
    /// See [`Metric::ResponseP99`].
    pub response_p99_us: f64,
    /// See [`Metric::ServerCpu`].
    pub server_cpu_us: Option<f64>,
    /// Requests that failed or got no response. If there are any, the other figures do not describe the same
    /// work.
    #[serde(default)]
    pub failed: u64,
    /// `true` if the load generator was late or the limit: then the other figures are its own too. Absent of
    /// rounds that do not say it.
    #[serde(default)]
    pub is_generator_late: Option<bool>,
    /// The share of the time in which a thread of the load generator was ready to run and had no core. Absent
    /// of rounds that do not say it.
    #[serde(default)]
    pub generator_waiting_share: Option<f64>,
}

/// Two candidates in one metric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Which one.
    pub candidate: String,
    /// Against which.
    pub against: String,
    /// Compared figure.
    pub metric: Metric,
    /// `true` if both were loaded in the same rounds, `false` against a baseline.
    #[serde(default)]
    pub is_paired: bool,
    /// The figure of the candidate as a multiple of the other's.
    pub ratio: Ratio,
    /// Difference in microseconds: the latency that a gateway adds, if the other candidate is its upstream.
    /// Only for times of the same round.
    pub added: Option<Ratio>,
    /// Result.
    pub verdict: Verdict,
}

impl Metric {
    /// Every metric, the most important first.
    pub const ALL: [Self; 4] = [Self::AchievedRate, Self::ResponseP50, Self::ResponseP99, Self::ServerCpu];

    /// Returns the name for reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::AchievedRate => "requests/s",
            Self::ResponseP50 => "p50",
            Self::ResponseP99 => "p99",
            Self::ServerCpu => "server CPU",
        }
    }

    /// A value with its unit.
    pub fn format(self, value: f64) -> String {
        if self == Self::AchievedRate { rate(value) } else { time(value) }
    }

    pub(super) const fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::AchievedRate => Some(sample.achieved_requests_per_second),
            Self::ResponseP50 => Some(sample.response_p50_us),
            Self::ResponseP99 => Some(sample.response_p99_us),
            Self::ServerCpu => sample.server_cpu_us,
        }
    }

    pub(super) fn verdict(self, ratio: Ratio) -> Verdict {
        let is_more_better = self == Self::AchievedRate;
        match ratio {
            _ if ratio.holds_one() || !ratio.is_sure() => Verdict::NoDifferenceShown,
            _ if (ratio.median > 1.0) == is_more_better => Verdict::Faster,
            _ => Verdict::Slower,
        }
    }

    /// The verdict about separate runs, which is never certain.
    pub(super) fn verdict_of_separate_runs(self, ratio: Ratio) -> Verdict {
        let is_more_better = self == Self::AchievedRate;
        match ratio {
            _ if ratio.holds_one() => Verdict::NoDifferenceShown,
            _ if (ratio.median > 1.0) == is_more_better => Verdict::LikelyFaster,
            _ => Verdict::LikelySlower,
        }
    }
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::LikelyFaster => "likely faster",
            Self::LikelySlower => "likely slower",
            Self::GeneratorLate => "load generator late",
            Self::NoDifferenceShown => "no difference shown",
            Self::Failed => "failed",
        }
    }
}

impl Sample {
    /// The figures of a load.
    pub fn of(report: &Report) -> Self {
        Self {
            achieved_requests_per_second: report.achieved_requests_per_second,
            response_p50_us: report.response_time.p50_us,
            response_p99_us: report.response_time.p99_us,
            server_cpu_us: report.server.as_ref().and_then(|server| server.cpu_us_per_request),
            failed: report.failures(),
            is_generator_late: Some(report.generator.is_late()),
            generator_waiting_share: Some(report.generator.waiting_worker_share),
        }
    }

    /// The figures of the parts of the time of a single load. The last part may be too short, and a part
    /// without answers has no figures. CPU time is known of the whole load only.
    pub(super) fn of_parts(report: &Report) -> Vec<Self> {
        let parts = report.over_time.split_last().map_or(&[][..], |(_, before)| before);
        let parts = parts.iter().filter(|part| part.requests_per_second > 0.0 && part.p50_us > 0.0);
        let sample = |part: &Part| Self {
            achieved_requests_per_second: part.requests_per_second,
            response_p50_us: part.p50_us,
            response_p99_us: part.p99_us,
            server_cpu_us: None,
            failed: report.failures(),
            ..Self::of(report)
        };
        parts.map(sample).collect()
    }
}

impl Candidate {
    /// Returns `true` if requests failed in any round.
    pub fn has_failed(&self) -> bool {
        self.rounds.iter().any(|sample| sample.failed > 0)
    }

    /// The number of rounds in which the load generator was late or the limit; `None` if not all rounds say
    /// it.
    pub(super) fn late_rounds(&self) -> Option<usize> {
        let late: Option<Vec<bool>> = self.rounds.iter().map(|sample| sample.is_generator_late).collect();
        Some(late?.into_iter().filter(|is_late| *is_late).count())
    }

    /// Returns `true` if the load generator was late or the limit in most rounds; `None` if not all rounds
    /// say it.
    pub(super) fn is_mostly_late(&self) -> Option<bool> {
        self.late_rounds().map(|late| late * 2 > self.rounds.len())
    }

    /// Its figures in a metric, as far as all rounds have one.
    pub(super) fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.rounds.iter().map(|sample| metric.of(sample)).collect()
    }

    /// Median and spread in every metric that it has figures in.
    pub(super) fn summaries(&self) -> Vec<(Metric, Summary)> {
        Metric::ALL.iter().filter_map(|metric| Some((*metric, self.summary(*metric)?))).collect()
    }

    /// The median in a metric, and its spread.
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric)?)
    }
}

impl Pair {
    /// Returns the confidence level of the interval: `95 %`, or `separate runs`, which have none.
    pub fn certainty(&self) -> String {
        if self.is_paired { self.ratio.certainty() } else { "separate runs".to_owned() }
    }

    /// Returns the difference with its interval, or an empty string if it is unknown.
    pub fn added_in_words(&self) -> String {
        let Some(added) = self.added else { return String::new() };
        let [median, low, high] = [added.median, added.low, added.high].map(difference);
        format!("{median} ({low} to {high}, {})", added.certainty())
    }
}

/// A time that may be negative, with its sign.
fn difference(microseconds: f64) -> String {
    format!("{}{}", if microseconds < 0.0 { '-' } else { '+' }, time(microseconds.abs()))
}
