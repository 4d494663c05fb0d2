//! Thresholds: conditions that make a load fail, such as `p99 > 20ms`.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use crate::report::{Report, TimesReport, rate, time};
use crate::requests::Scenario;
use crate::stages::Stages;

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
    /// Returns a description of the measured value if the condition is true, such as `p99 is 31.2 ms`. A time that
    /// was not measured, because no request got a response, makes each condition on times true.
    pub fn violation(&self, report: &Report) -> Option<String> {
        let Some(measured) = self.part.measured(report) else {
            return Some(format!("the load has no {}", self.part));
        };
        let times = measured.times;
        let name = self.metric.name();
        let (value, text) = match self.metric {
            Metric::Time(..) if times.count == 0 => return Some(format!("{name} was not measured")),
            Metric::Time(_, of) => (of(times), time(of(times))),
            Metric::Errors => {
                let percent = measured.failed_percent();
                (percent, format!("{}%", rounded(percent)))
            }
            Metric::Failed => {
                let failed = measured.failed;
                #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
                (failed as f64, failed.to_string())
            }
            Metric::Rate => {
                let achieved = measured.requests_per_second;
                (achieved, format!("{} requests/s", rate(achieved)))
            }
        };
        self.operator.compares(value, self.limit).then(|| format!("{name} is {text}"))
    }
}

impl Threshold {
    /// Checks that the load will have the part to which this condition applies. `stages` and `scenario` are the
    /// stages and the scenario of the load.
    ///
    /// # Errors
    /// Returns an error if the load has no such stage or step, or if the stage has no duration and thus no
    /// requests.
    pub fn check(&self, stages: Option<&Stages>, scenario: Option<&Scenario>) -> Result<(), PartMissing> {
        let number = match &self.part {
            Part::Load => return Ok(()),
            Part::Stage(number) => *number,
            Part::Step(step) => return self.check_step(step, scenario),
        };
        let ramps = stages.map_or(&[][..], Stages::ramps);
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let is_empty = match ramps.get(index) {
            Some(ramp) if !ramp.duration.is_zero() => return Ok(()),
            found => found.is_some(),
        };
        let reason = match ramps.len() {
            0 => MissingBecause::NoStages,
            _ if is_empty => MissingBecause::EmptyStage(number),
            stages => MissingBecause::FewStages(stages),
        };
        Err(PartMissing { condition: self.to_string(), reason })
    }

    fn check_step(&self, step: &str, scenario: Option<&Scenario>) -> Result<(), PartMissing> {
        let names: Vec<_> = scenario.iter().flat_map(|scenario| scenario.step_names()).collect();
        if names.contains(&step) {
            return Ok(());
        }
        let reason = match scenario {
            None => MissingBecause::NoScenario,
            Some(_) => MissingBecause::OtherSteps(format!("`{}`", names.join("`, `"))),
        };
        Err(PartMissing { condition: self.to_string(), reason })
    }
}

/// A condition applies to a stage or a step that the load does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartMissing {
    condition: String,
    reason: MissingBecause,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum MissingBecause {
    NoStages,
    /// The stage with this number has no duration.
    EmptyStage(u64),
    /// The load has only this number of stages.
    FewStages(usize),
    NoScenario,
    /// The scenario has only the steps with these names.
    OtherSteps(String),
}

impl PartMissing {
    /// Returns a hint for the user of `thruway bench`.
    pub fn hint(&self) -> String {
        match &self.reason {
            MissingBecause::NoStages => "add `--stages`, or remove the stage from the condition".to_owned(),
            MissingBecause::EmptyStage(_) => "use the next stage, which begins at the same time".to_owned(),
            MissingBecause::FewStages(1) => "the only stage has the number 1".to_owned(),
            MissingBecause::FewStages(stages) => format!("use a stage from 1 to {stages}"),
            MissingBecause::NoScenario => "only loads of `thruway bench scenario` have steps".to_owned(),
            MissingBecause::OtherSteps(names) => format!("the steps are {names}"),
        }
    }
}

impl Display for PartMissing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "the condition `{}` can never be checked: ", self.condition)?;
        match &self.reason {
            MissingBecause::NoStages => f.write_str("the load has no stages"),
            MissingBecause::EmptyStage(number) => {
                write!(f, "stage {number} has no duration, so it has no requests")
            }
            MissingBecause::FewStages(1) => f.write_str("the load has only one stage"),
            MissingBecause::FewStages(stages) => write!(f, "the load has only {stages} stages"),
            MissingBecause::NoScenario => f.write_str("the load has no scenario"),
            MissingBecause::OtherSteps(_) => f.write_str("the scenario has no such step"),
        }
    }
}

impl Error for PartMissing {}

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

/// Rounds to three significant digits or more.
fn rounded(percent: f64) -> String {
    let text = format!("{percent:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

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

    #[test]
    fn condition_on_a_missing_stage_is_an_error() {
        let check = |condition: &str, stages: Option<&str>| {
            let stages = stages.map(|stages| stages.parse::<Stages>().unwrap());
            condition.parse::<Threshold>().unwrap().check(stages.as_ref(), None)
        };
        let three = Some("1s:5,0s:10,1s:10");
        for condition in ["p99 > 1s", "stage 1: p99 > 1s", "stage 3: p99 > 1s"] {
            assert_eq!(check(condition, three), Ok(()));
        }
        assert_eq!(check("p99 > 1s", None), Ok(()));
        for (condition, stages, reason, hint) in [
            ("stage 9: p99 > 1s", three, "the load has only 3 stages", "use a stage from 1 to 3"),
            (
                "stage 2: max > 1s",
                Some("1s:5"),
                "the load has only one stage",
                "the only stage has the number 1",
            ),
            (
                "stage 2: p99 > 1s",
                three,
                "stage 2 has no duration, so it has no requests",
                "use the next stage",
            ),
            ("stage 1: p99 > 1s", None, "the load has no stages", "add `--stages`"),
            ("step login: p99 > 1s", None, "the load has no scenario", "`thruway bench scenario`"),
            ("stage 18446744073709551615: p99 > 1s", three, "the load has only 3 stages", "from 1 to 3"),
        ] {
            let error = check(condition, stages).unwrap_err();
            let expected = format!("the condition `{condition}` can never be checked: {reason}");
            assert_eq!(error.to_string(), expected);
            assert!(error.hint().contains(hint), "{condition}: {}", error.hint());
        }
    }
}
