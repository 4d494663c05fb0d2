//! Thresholds: conditions that make a load fail, such as `p99 > 20ms`.

mod missing;

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use crate::report::{Report, ThresholdReport, ThresholdUnit, TimesReport, rounded};
pub use missing::PartMissing;

/// A condition on a value of a report, such as `p99 > 20ms`. If the condition is true, the load has failed.
///
/// The condition consists of a metric, an operator (`<`, `<=`, `>` or `>=`) and a value. The metrics are:
/// - `min`, `mean`, `p50`, `p75`, `p90`, `p95`, `p98`, `p99`, `p99.9`, `p99.99` and `max`: response times. Their
///   values are durations, such as `20ms`.
/// - `errors`: share of the failed requests. Its value is a percentage, such as `0.1%`.
/// - `failed`: number of the failed requests.
/// - `rate`: requests with the expected response per second.
///
/// A condition on a part of the load begins with the name of the part: `stage 2: p99 > 20ms` or
/// `step login: p99 > 20ms`.
///
/// ```
/// use thruway_bench::Threshold;
///
/// let threshold: Threshold = "p99>20ms".parse()?;
/// assert_eq!(threshold.to_string(), "p99 > 20ms");
/// assert!("p97 > 20ms".parse::<Threshold>().is_err());
/// # Ok::<(), thruway_bench::InvalidThreshold>(())
/// ```
#[derive(Clone, Debug)]
pub struct Threshold {
    part: Part,
    metric: Metric,
    operator: Operator,
    /// The limit: microseconds for times, a percentage for `errors`, and otherwise a number.
    limit: f64,
    /// The value of the condition as the user has written it.
    limit_text: String,
}

/// The part of a load to which a condition applies.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Load,
    /// The stage with this number, counted from 1.
    Stage(u64),
    /// The step of a scenario with this name.
    Step(String),
}

/// The measured values of a load, or of a part of a load.
struct Measured<'a> {
    times: &'a TimesReport,
    answered: u64,
    failed: u64,
    requests_per_second: f64,
}

#[derive(Clone, Copy, Debug)]
enum Metric {
    Time(&'static str, TimeOf),
    Errors,
    Failed,
    Rate,
}

/// Returns a time of a report in microseconds.
type TimeOf = fn(&TimesReport) -> f64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Threshold {
    /// Returns the report with the outcomes of `thresholds`.
    #[must_use]
    pub fn evaluate_all(thresholds: &[Self], report: Report) -> Report {
        let outcomes = thresholds.iter().map(|threshold| threshold.evaluate(&report)).collect();
        Report { thresholds: outcomes, ..report }
    }

    /// Evaluates the condition for the load of `report`. A value that was not measured makes the condition true: a
    /// time if no request got a response, and each value of a stage that never began.
    pub fn evaluate(&self, report: &Report) -> ThresholdReport {
        let value = self.part.measured(report).and_then(|measured| self.metric.value(&measured));
        ThresholdReport {
            condition: self.to_string(),
            metric: self.metric.name().to_owned(),
            value: value.map(|value| rounded(value, DECIMALS)),
            limit: rounded(self.limit, DECIMALS),
            unit: self.metric.unit(),
            is_violated: value.is_none_or(|value| self.operator.compares(value, self.limit)),
        }
    }
}

impl FromStr for Threshold {
    type Err = InvalidThreshold;

    fn from_str(text: &str) -> Result<Self, InvalidThreshold> {
        Self::parse(text).map_err(InvalidThreshold)
    }
}

impl Threshold {
    fn parse(text: &str) -> Result<Self, String> {
        let (part, text) = Part::split(text)?;
        let at =
            text.find(['<', '>']).ok_or("it has no operator: expected a condition such as `p99 > 20ms`")?;
        let (metric, rest) = text.split_at(at);
        let (operator, limit) = Operator::split(rest);
        let (metric, limit) = (Metric::named(metric.trim())?, limit.trim());
        Ok(Self { part, metric, operator, limit: metric.parse_limit(limit)?, limit_text: limit.to_owned() })
    }
}

/// The text of a threshold is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidThreshold(String);

impl Display for InvalidThreshold {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidThreshold {}

impl Display for Threshold {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.part != Part::Load {
            write!(f, "{}: ", self.part)?;
        }
        write!(f, "{} {} {}", self.metric.name(), self.operator.sign(), self.limit_text)
    }
}

impl Part {
    /// Splits the name of a part, such as `stage 2:`, from a condition.
    fn split(text: &str) -> Result<(Self, &str), String> {
        let Some((part, condition)) = text.rsplit_once(": ") else { return Ok((Self::Load, text)) };
        let part = part.trim();
        let found = match part.split_once(' ') {
            Some(("stage", number)) => number.parse().ok().filter(|number| *number > 0).map(Self::Stage),
            Some(("step", name)) => Some(Self::Step(name.trim().to_owned())),
            _ => None,
        };
        let found = found.ok_or_else(|| {
            format!("unknown part `{part}`: expected a part such as `stage 2` or `step login`")
        });
        Ok((found?, condition))
    }

    /// Returns the measured values, or `None` if the load does not have this part.
    fn measured<'a>(&self, report: &'a Report) -> Option<Measured<'a>> {
        match self {
            Self::Load => Some(Measured {
                times: &report.response_time,
                answered: report.requests.answered,
                failed: report.failures(),
                requests_per_second: report.achieved_requests_per_second,
            }),
            Self::Stage(number) => {
                let stage = report.stages.iter().find(|stage| stage.number == *number)?;
                Some(Measured {
                    times: &stage.response_time,
                    answered: stage.answered,
                    failed: stage.failed,
                    requests_per_second: stage.achieved_requests_per_second,
                })
            }
            Self::Step(name) => {
                let step = report.steps.iter().find(|step| step.name == *name)?;
                Some(Measured {
                    times: &step.response_time,
                    answered: step.answered,
                    failed: step.failed,
                    requests_per_second: step.achieved_requests_per_second,
                })
            }
        }
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load => f.write_str("load"),
            Self::Stage(number) => write!(f, "stage {number}"),
            Self::Step(name) => write!(f, "step {name}"),
        }
    }
}

impl Measured<'_> {
    /// Returns the percentage of the failed requests. 100 if no request got the expected response.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn failed_percent(&self) -> f64 {
        let (answered, failed) = (self.answered as f64, self.failed as f64);
        if answered == 0.0 { 100.0 } else { 100.0 * failed / (answered + failed) }
    }
}

impl Metric {
    /// Returns the value of the metric in its unit, or `None` if the metric is a time and no time was measured.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn value(self, measured: &Measured<'_>) -> Option<f64> {
        match self {
            Self::Time(_, of) => (measured.times.count > 0).then(|| of(measured.times)),
            Self::Errors => Some(measured.failed_percent()),
            Self::Failed => Some(measured.failed as f64),
            Self::Rate => Some(measured.requests_per_second),
        }
    }

    const fn unit(self) -> ThresholdUnit {
        match self {
            Self::Time(..) => ThresholdUnit::Us,
            Self::Errors => ThresholdUnit::Percent,
            Self::Failed => ThresholdUnit::Requests,
            Self::Rate => ThresholdUnit::RequestsPerSecond,
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        let times = TIMES.map(|(name, of)| Self::Time(name, of));
        let mut metrics = times.into_iter().chain(OTHERS);
        metrics
            .find(|metric| metric.name() == name)
            .ok_or_else(|| format!("unknown metric `{name}`: expected one of {}", names()))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Time(name, _) => name,
            Self::Errors => "errors",
            Self::Failed => "failed",
            Self::Rate => "rate",
        }
    }

    fn parse_limit(self, text: &str) -> Result<f64, String> {
        let number =
            |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let invalid = |expected| format!("invalid value `{text}`: expected {expected}");
        match self {
            Self::Time(..) => humantime::parse_duration(text)
                .map(|time: Duration| time.as_secs_f64() * 1e6)
                .map_err(|_| invalid("a time with a unit, such as `20ms`")),
            Self::Errors => text
                .strip_suffix('%')
                .and_then(|percent| number(percent.trim()))
                .ok_or_else(|| invalid("a percentage, such as `0.1%`")),
            Self::Failed => number(text).ok_or_else(|| invalid("a number of requests")),
            Self::Rate => number(text).ok_or_else(|| invalid("a number of requests per second")),
        }
    }
}

impl Operator {
    /// Splits the operator from the start of `text`, which begins with `<` or `>`.
    fn split(text: &str) -> (Self, &str) {
        let operators = [Self::LessOrEqual, Self::GreaterOrEqual, Self::Less, Self::Greater];
        let found =
            operators.into_iter().find_map(|operator| Some((operator, text.strip_prefix(operator.sign())?)));
        found.unwrap_or((Self::Greater, text))
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    fn compares(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::LessOrEqual => value <= limit,
            Self::Greater => value > limit,
            Self::GreaterOrEqual => value >= limit,
        }
    }
}

fn names() -> String {
    let times = TIMES.iter().map(|(name, _)| *name);
    times.chain(OTHERS.map(Metric::name)).collect::<Vec<_>>().join(", ")
}

/// Number of decimal places of values in reports.
const DECIMALS: i32 = 4;

/// The names of the times of a report, with their values in microseconds.
const TIMES: [(&str, TimeOf); 11] = [
    ("min", |times| times.min_us),
    ("mean", |times| times.mean_us),
    ("p50", |times| times.p50_us),
    ("p75", |times| times.p75_us),
    ("p90", |times| times.p90_us),
    ("p95", |times| times.p95_us),
    ("p98", |times| times.p98_us),
    ("p99", |times| times.p99_us),
    ("p99.9", |times| times.p99_9_us),
    ("p99.99", |times| times.p99_99_us),
    ("max", |times| times.max_us),
];

/// The metrics that are not times.
const OTHERS: [Metric; 3] = [Metric::Errors, Metric::Failed, Metric::Rate];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_has_metric_operator_and_value() {
        for (text, written) in [
            ("p99 > 20ms", "p99 > 20ms"),
            ("p99.9>=1s", "p99.9 >= 1s"),
            (" max > 1m ", "max > 1m"),
            ("errors>0.1%", "errors > 0.1%"),
            ("rate < 1000.5", "rate < 1000.5"),
            ("failed <= 3", "failed <= 3"),
            ("stage 2: p99>20ms", "stage 2: p99 > 20ms"),
            ("step log in: errors>1%", "step log in: errors > 1%"),
        ] {
            assert_eq!(text.parse::<Threshold>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn invalid_condition_is_explained() {
        for (text, error) in [
            ("", "it has no operator: expected a condition such as `p99 > 20ms`"),
            ("p99 20ms", "it has no operator: expected a condition such as `p99 > 20ms`"),
            ("p99 > 20", "invalid value `20`: expected a time with a unit, such as `20ms`"),
            ("p99 >> 20ms", "invalid value `> 20ms`: expected a time with a unit, such as `20ms`"),
            ("errors > 1", "invalid value `1`: expected a percentage, such as `0.1%`"),
            ("failed > many", "invalid value `many`: expected a number of requests"),
            ("rate < NaN", "invalid value `NaN`: expected a number of requests per second"),
            (
                "stage 0: p99 > 1s",
                "unknown part `stage 0`: expected a part such as `stage 2` or `step login`",
            ),
            ("rate < -1", "invalid value `-1`: expected a number of requests per second"),
        ] {
            assert_eq!(text.parse::<Threshold>().unwrap_err().to_string(), error, "{text}");
        }
        let unknown = "p97 > 1s".parse::<Threshold>().unwrap_err().to_string();
        assert!(unknown.starts_with("unknown metric `p97`: expected one of min, mean, p50"), "{unknown}");
    }
}
