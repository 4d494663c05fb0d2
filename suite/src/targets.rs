//! The bounds that the project has set itself, which `suite/data/targets.toml` lists, and the verdicts about
//! them.

use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};

use thruway_bench::statistics::Ratio;

use crate::figures::{Figures, Metric};
use crate::results::{CaseResult, SuiteReport};

/// A figure that must hold.
#[derive(Clone, Debug)]
struct Target {
    case: String,
    metric: Metric,
    against: Baseline,
    bound: Bound,
}

/// The figure that ours is compared with.
#[derive(Clone, Debug)]
enum Baseline {
    /// That of this candidate in the same rounds.
    Candidate(String),
    /// That of every other candidate, but for the ceiling.
    Everyone,
    /// Our own in another case.
    OurCase(String),
    /// No other figure: the bound is for the figure alone.
    Nothing,
}

/// A bound of a figure.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
}

/// A target, the measured figure, and the verdict.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TargetResult {
    /// The target in words.
    pub(crate) target: String,
    /// The bound in words.
    pub(crate) bound: String,
    /// The figure that is bounded: a ratio, or a value with its spread for a target against nothing.
    pub(crate) figure: Option<Ratio>,
    /// `true` if the median keeps the bound.
    pub(crate) is_met: bool,
    /// `true` if the bound lies within the interval, so that another run may have another verdict.
    pub(crate) is_close: bool,
    /// `true` if requests to ours failed in that case: then there is no figure, and the target is missed.
    pub(crate) has_failed: bool,
}

/// Holds the figures against the targets of the cases that were measured, or were to be.
pub(crate) fn judge(report: &SuiteReport) -> Vec<TargetResult> {
    let is_of_interest = |target: &Target| {
        report.case(&target.case).is_some() || report.left_out.iter().any(|left| left.what == target.case)
    };
    let targets = TARGETS.iter().filter(|target| is_of_interest(target));
    targets.map(|target| target.judge(report)).collect()
}

/// All targets. The file is part of this program, and a test reads it: an error in it ends any run.
static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        target: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        cases: Vec<String>,
        bounds: Vec<String>,
    }
    let file: Result<File, _> = toml::from_str(include_str!("../data/targets.toml"));
    let rows = file.unwrap_or_else(|error| panic!("targets.toml: {error}")).target;
    let target = |case: &str, text: &str| {
        Target::parse(case, text).unwrap_or_else(|| panic!("targets.toml: `{text}` is no bound"))
    };
    let of_row = |row: &Row| -> Vec<Target> {
        let of_case = |case: &String| row.bounds.iter().map(|text| target(case, text)).collect::<Vec<_>>();
        row.cases.iter().flat_map(of_case).collect()
    };
    rows.iter().flat_map(of_row).collect()
});

impl Target {
    /// Reads a bound such as `server_cpu / nginx <= 1.1`.
    fn parse(case: &str, text: &str) -> Option<Self> {
        let (figure, bound) = text.split_once(['<', '>'])?;
        let operator = text.get(figure.len()..)?;
        let number = bound.trim_start_matches('=').trim().parse().ok()?;
        let bound = match operator.get(..2)? {
            "<=" => Bound::AtMost(number),
            ">=" => Bound::AtLeast(number),
            "< " => Bound::Below(number),
            _ => return None,
        };
        let (metric, against) = figure.trim().split_once(" / ").unwrap_or((figure.trim(), ""));
        let own_case = against.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        let against = match (against, own_case) {
            ("", _) => Baseline::Nothing,
            ("everyone", _) => Baseline::Everyone,
            (_, Some(case)) => Baseline::OurCase(case.to_owned()),
            (name, None) => Baseline::Candidate(name.to_owned()),
        };
        let metric = Metric::deserialize(StrDeserializer::<ValueError>::new(metric)).ok()?;
        Some(Self { case: case.to_owned(), metric, against, bound })
    }

    fn judge(&self, report: &SuiteReport) -> TargetResult {
        match &self.against {
            Baseline::Candidate(name) => self.judged(report, &format!(" / {name}"), self.ratio(report, name)),
            Baseline::Everyone => self.against_everyone(report),
            Baseline::OurCase(other) => {
                self.judged(report, &format!(" / `{other}`"), self.to_case(report, other))
            }
            Baseline::Nothing => self.judged(report, "", self.value(report)),
        }
    }

    fn ratio(&self, report: &SuiteReport, name: &str) -> Option<Ratio> {
        let case = report.case(&self.case)?;
        self.metric.ratio(&case.ours()?.rounds, &case.candidate(name)?.rounds)
    }

    /// A bound against the closest candidate holds against every other.
    fn against_everyone(&self, report: &SuiteReport) -> TargetResult {
        let others = report.case(&self.case).into_iter().flat_map(CaseResult::others);
        let others = others.filter(|other| other.name != CEILING);
        let ratios = others.filter_map(|other| Some((&other.name, self.ratio(report, &other.name)?)));
        let compare = |a: &Ratio, b: &Ratio| match self.bound {
            Bound::AtLeast(_) => b.median.total_cmp(&a.median),
            Bound::AtMost(_) | Bound::Below(_) => a.median.total_cmp(&b.median),
        };
        match ratios.max_by(|(_, a), (_, b)| compare(a, b)) {
            Some((name, ratio)) => {
                self.judged(report, &format!(" / everyone (closest: {name})"), Some(ratio))
            }
            None => self.judged(report, " / everyone", None),
        }
    }

    fn to_case(&self, report: &SuiteReport, other: &str) -> Option<Ratio> {
        let values = |name: &str| self.metric.clean_values(&report.case(name)?.ours()?.rounds);
        Ratio::of_unpaired(&values(&self.case)?, &values(other)?)
    }

    fn value(&self, report: &SuiteReport) -> Option<Ratio> {
        Ratio::of_values(&self.metric.clean_values(&report.case(&self.case)?.ours()?.rounds)?)
    }

    /// Returns `true` if ours, or requests to it, failed, and there was a figure to compare with.
    fn has_failed(&self, report: &SuiteReport) -> bool {
        let Some(case) = report.case(&self.case) else { return false };
        let is_there = match &self.against {
            Baseline::Candidate(name) => case.candidate(name).is_some(),
            Baseline::Everyone => case.others().any(|other| other.name != CEILING),
            Baseline::OurCase(other) => report.case(other).is_some(),
            Baseline::Nothing => true,
        };
        let other = match &self.against {
            Baseline::OurCase(other) => report.case(other),
            _ => None,
        };
        is_there && (fails(case) || other.is_some_and(fails))
    }

    fn judged(&self, report: &SuiteReport, against: &str, figure: Option<Ratio>) -> TargetResult {
        let has_failed = self.has_failed(report);
        let figure = figure.filter(|_| !has_failed);
        TargetResult {
            has_failed,
            target: format!("{}: {}{against}", self.case, self.metric.label()),
            bound: self.bound.to_string(),
            figure,
            is_met: figure.is_some_and(|figure| self.bound.holds(figure.median)),
            is_close: figure
                .is_some_and(|figure| self.bound.holds(figure.low) != self.bound.holds(figure.high)),
        }
    }
}

/// Returns `true` if ours ended, or did not answer every request.
fn fails(case: &CaseResult) -> bool {
    let ours = case.candidates.first();
    ours.is_some_and(|ours| ours.failure.is_some() || !ours.rounds.iter().all(Figures::is_clean))
}

impl TargetResult {
    /// Returns the verdict in words.
    pub(crate) const fn verdict(&self) -> &'static str {
        match (self.figure, self.is_met, self.is_close) {
            (None, ..) if self.has_failed => "missed: requests failed",
            (None, ..) => "not measured",
            (_, true, false) => "met",
            (_, true, true) => "met, but the interval crosses it",
            (_, false, true) => "missed, but the interval crosses it",
            (_, false, false) => "missed",
        }
    }
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
            Self::Below(bound) => figure < bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound:.2}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound:.2}"),
            Self::Below(bound) => write!(f, "< {bound:.2}"),
        }
    }
}

/// The ceiling only answers, so it is ahead by definition.
pub(crate) const CEILING: &str = "ceiling";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CASES;
    use crate::tests::{case, report};

    #[test]
    fn targets_name_cases_that_exist() {
        let is_known = |name: &str| CASES.iter().any(|case| case.name == name);
        for target in TARGETS.iter() {
            assert!(is_known(&target.case), "no case `{}`", target.case);
            if let Baseline::OurCase(other) = &target.against {
                assert!(is_known(other), "no case `{other}`");
            }
        }
    }

    #[test]
    fn everyone_is_the_closest_and_a_bound_within_the_interval_is_marked() {
        let close = case(
            "plaintext c=16",
            &[
                ("thruway", &[9.0, 11.0, 9.5]),
                ("nginx", &[10.0; 3]),
                ("ceiling", &[8.0; 3]),
                ("h2o", &[20.0; 3]),
            ],
        );
        let judged = judge(&report(vec![close]));
        let [ceiling, target] = &judged[..] else { panic!("{judged:?}") };
        assert!(ceiling.target.ends_with("/ ceiling") && !ceiling.is_met);
        assert!(target.target.ends_with("closest: nginx)") && target.is_met && target.is_close);
        assert_eq!(target.verdict(), "met, but the interval crosses it");
        // The closest for a lower bound.
        let bridges = [
            ("thruway-bridge", &[1.0; 3][..]),
            ("supergateway", &[50.0; 3]),
            ("mcp-proxy-npm", &[19.0; 3]),
            ("mcp-proxy-python", &[30.0; 3]),
        ];
        let judged = judge(&report(vec![case("mcp bridge c=1", &bridges)]));
        let rate = judged.iter().find(|target| target.target.contains("requests/s")).unwrap();
        assert!(rate.target.ends_with("closest: mcp-proxy-npm)") && !rate.is_met && !rate.is_close);
    }

    /// A server that failed half of its requests, and quickly, met its targets.
    #[test]
    fn a_missed_target_a_failure_and_no_measurement_are_told_apart() {
        let both =
            |ours: f64| case("keep-alive without -k", &[("thruway", &[ours; 3]), ("nginx", &[10.0; 3])]);
        let verdicts = |case: CaseResult| {
            let judged = judge(&report(vec![case]));
            judged.iter().map(TargetResult::verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(both(1.0)), ["met"; 4]);
        assert_eq!(verdicts(both(30.0)), ["missed"; 4]);
        let alone = case("keep-alive without -k", &[("thruway", &[30.0; 3])]);
        assert_eq!(verdicts(alone), ["not measured"; 4]);
        for (failing, verdict) in [(0, "missed: requests failed"), (1, "not measured")] {
            let mut both = both(1.0);
            both.candidates[failing].rounds[1].failed = 1;
            assert_eq!(verdicts(both), [verdict; 4]);
        }
        // Rounds before its end were enough for a target to be met.
        let mut dead = both(1.0);
        dead.candidates[0].failure = Some("it has ended: signal 9".to_owned());
        assert_eq!(verdicts(dead.clone()), ["missed: requests failed"; 4]);
        dead.candidates[0].rounds.clear();
        assert_eq!(verdicts(dead), ["missed: requests failed"; 4]);
        assert!(judge(&report(Vec::new())).is_empty());
    }
}
