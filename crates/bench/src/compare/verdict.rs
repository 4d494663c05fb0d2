//! The candidates of a comparison with their measurements, and the verdict on each pair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{Part, Report, ThresholdReport, rate, time};
use crate::statistics::{Ratio, Summary};

/// A measured value that a comparison uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Number of requests per second that got the expected response.
    #[serde(rename = "achieved_requests_per_second")]
    AchievedRate,
    /// Median response time in microseconds.
    #[serde(rename = "response_p50_us")]
    ResponseP50,
    /// 99th percentile of the response times in microseconds.
    #[serde(rename = "response_p99_us")]
    ResponseP99,
    /// CPU time of the server per response, in microseconds. This value exists only if the process of the
    /// server is known.
    #[serde(rename = "server_cpu_us_per_request")]
    ServerCpu,
}

/// Result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole confidence interval shows an improvement, at a confidence level of at least 95 %.
    Faster,
    /// The whole confidence interval shows a deterioration, at a confidence level of at least 95 %.
    Slower,
    /// The whole interval is better than the baseline, even with an allowance for drift, which is a change of
    /// the machine between the two runs. The verdict is not certain, because the drift may be larger than
    /// this allowance.
    LikelyFaster,
    /// The whole interval is worse than the baseline, even with an allowance for drift, which is a change of
    /// the machine between the two runs. The verdict is not certain, because the drift may be larger than
    /// this allowance.
    LikelySlower,
    /// The interval contains the ratio 1, or there were too few rounds for a verdict.
    NoDifferenceShown,
    /// The load generator was late or was the bottleneck in most rounds of one run, but not of the other
    /// run. Only comparisons with a baseline have this verdict.
    GeneratorLate,
    /// Requests to one of the two candidates failed, so the two candidates did not do the same work.
    Failed,
}

/// A compared server with its measurements in each round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The name of the candidate: its URL.
    pub name: String,
    /// The measurements, one entry for each round.
    pub rounds: Vec<Sample>,
}

/// The measurements of one round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of requests per second that got the expected response.
    pub achieved_requests_per_second: f64,
    /// Median response time in microseconds.
    pub response_p50_us: f64,
    /// 99th percentile of the response times in microseconds.
    pub response_p99_us: f64,
    /// CPU time of the server per response, in microseconds. Absent if the process of the server is unknown.
    pub server_cpu_us_per_request: Option<f64>,
    /// Number of requests that failed or got no response. If this number is not 0, the other values are not
    /// comparable, because the server did different work.
    #[serde(default)]
    pub failed: u64,
    /// `true` if the load generator was late or was the bottleneck. In this case, the other values also
    /// depend on the load generator. Absent in comparisons of older versions.
    #[serde(default)]
    pub is_generator_late: Option<bool>,
    /// Share of the time in which a thread of the load generator was ready to run but had no CPU core.
    /// Absent in comparisons of older versions.
    #[serde(default)]
    pub generator_waiting_share: Option<f64>,
    /// The conditions of `--fail-if`, with their measured values in this round.
    #[serde(default)]
    pub thresholds: Vec<ThresholdReport>,
}

/// Two candidates, compared in one metric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The name of the candidate.
    pub candidate: String,
    /// The name of the other candidate of the pair.
    pub against: String,
    /// The compared metric.
    pub metric: Metric,
    /// `true` if both candidates were measured in the same rounds, `false` in a comparison with a baseline.
    #[serde(default)]
    pub is_paired: bool,
    /// The candidate's value divided by the other candidate's value.
    pub ratio: Ratio,
    /// The difference between the two values in microseconds. If the candidate is a gateway and the other
    /// candidate is its upstream server, this is the latency that the gateway adds. Present only for times,
    /// and only if both candidates were measured in the same rounds.
    pub added_us: Option<Ratio>,
    /// The verdict on this pair.
    pub verdict: Verdict,
}

impl Metric {
    /// All metrics, in the order of their importance.
    pub const ALL: [Self; 4] = [Self::AchievedRate, Self::ResponseP50, Self::ResponseP99, Self::ServerCpu];

    /// Returns the name of the metric for reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::AchievedRate => "requests/s",
            Self::ResponseP50 => "p50",
            Self::ResponseP99 => "p99",
            Self::ServerCpu => "server CPU",
        }
    }

    /// Formats a value of this metric with its unit.
    pub fn format(self, value: f64) -> String {
        if self == Self::AchievedRate { rate(value) } else { time(value) }
    }

    pub(super) const fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::AchievedRate => Some(sample.achieved_requests_per_second),
            Self::ResponseP50 => Some(sample.response_p50_us),
            Self::ResponseP99 => Some(sample.response_p99_us),
            Self::ServerCpu => sample.server_cpu_us_per_request,
        }
    }

    pub(super) fn verdict(self, ratio: Ratio) -> Verdict {
        let is_more_better = self == Self::AchievedRate;
        match ratio {
            _ if ratio.contains_one() || !ratio.has_enough_values() => Verdict::NoDifferenceShown,
            _ if (ratio.median > 1.0) == is_more_better => Verdict::Faster,
            _ => Verdict::Slower,
        }
    }

    /// Returns the verdict on two separate runs. Such a verdict is never certain.
    pub(super) fn verdict_of_separate_runs(self, ratio: Ratio) -> Verdict {
        let is_more_better = self == Self::AchievedRate;
        match ratio {
            _ if ratio.contains_one() => Verdict::NoDifferenceShown,
            _ if (ratio.median > 1.0) == is_more_better => Verdict::LikelyFaster,
            _ => Verdict::LikelySlower,
        }
    }
}

impl Verdict {
    /// Returns the verdict as text.
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
    /// Takes the measurements of one round from its report.
    pub fn of(report: &Report) -> Self {
        Self {
            achieved_requests_per_second: report.achieved_requests_per_second,
            response_p50_us: report.response_time.p50_us,
            response_p99_us: report.response_time.p99_us,
            server_cpu_us_per_request: report.server.as_ref().and_then(|server| server.cpu_us_per_request),
            failed: report.failures(),
            is_generator_late: Some(report.generator.is_late()),
            generator_waiting_share: Some(report.generator.waiting_worker_share),
            thresholds: report.thresholds.clone(),
        }
    }

    /// Describes the measurements of round number `round` of the candidate `name` in a line.
    pub fn describe(&self, round: usize, name: &str) -> String {
        let (achieved, p99) = (rate(self.achieved_requests_per_second), time(self.response_p99_us));
        format!("round {round}: {achieved} requests/s, p99 {p99}, {} failed, {name}", self.failed)
    }

    /// Converts each time part of a report to a sample. Omits parts without responses, and the last part,
    /// because it may be too short. The samples have no CPU time, because the report contains only the CPU
    /// time of the whole load.
    pub(super) fn of_parts(report: &Report) -> Vec<Self> {
        let parts = report.over_time.split_last().map_or(&[][..], |(_, before)| before);
        let parts = parts.iter().filter(|part| part.requests_per_second > 0.0 && part.p50_us > 0.0);
        let sample = |part: &Part| Self {
            achieved_requests_per_second: part.requests_per_second,
            response_p50_us: part.p50_us,
            response_p99_us: part.p99_us,
            server_cpu_us_per_request: None,
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

    /// Returns the number of rounds in which the load generator was late or was the bottleneck, or `None` if
    /// any round lacks this information.
    pub(super) fn late_rounds(&self) -> Option<usize> {
        let late: Option<Vec<bool>> = self.rounds.iter().map(|sample| sample.is_generator_late).collect();
        Some(late?.into_iter().filter(|is_late| *is_late).count())
    }

    /// Returns `true` if the load generator was late or was the bottleneck in most rounds, or `None` if any
    /// round lacks this information.
    pub(super) fn is_mostly_late(&self) -> Option<bool> {
        self.late_rounds().map(|late| late * 2 > self.rounds.len())
    }

    /// Returns the values of a metric in all rounds, or `None` if the value of any round is missing.
    pub(super) fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.rounds.iter().map(|sample| metric.of(sample)).collect()
    }

    /// Returns the median and the spread of each metric that has values.
    pub(super) fn summaries(&self) -> Vec<(Metric, Summary)> {
        Metric::ALL.iter().filter_map(|metric| Some((*metric, self.summary(*metric)?))).collect()
    }

    /// Returns the median and the spread of one metric.
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric)?)
    }
}

impl Pair {
    /// Returns the confidence level of the interval as text, such as `95 %`. A comparison with a baseline
    /// has no confidence level, so the text is `separate runs`.
    pub fn certainty(&self) -> String {
        if self.is_paired { self.ratio.certainty() } else { "separate runs".to_owned() }
    }

    /// Returns the added latency with its interval as text, or an empty string if the latency is unknown.
    pub fn added_in_words(&self) -> String {
        let Some(added) = self.added_us else { return String::new() };
        let [median, low, high] = [added.median, added.low, added.high].map(difference);
        format!("{median} ({low} to {high}, {})", added.certainty())
    }
}

/// Formats a time with its sign.
fn difference(microseconds: f64) -> String {
    format!("{}{}", if microseconds < 0.0 { '-' } else { '+' }, time(microseconds.abs()))
}
