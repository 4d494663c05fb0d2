//! The performance targets of the project in `suite/data/targets.toml`, and their verdicts.

use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};

use thruway_bench::statistics::Ratio;

use crate::figures::{Figures, Metric};
use crate::results::{CaseResult, SuiteReport};

/// A target: a metric of Thruway in a case, a baseline, and a bound.
#[derive(Clone, Debug)]
struct Target {
    case: String,
    metric: Metric,
    against: Baseline,
    bound: Bound,
}

/// The baseline of a target.
#[derive(Clone, Debug)]
enum Baseline {
    /// This candidate in the same case.
    Candidate(String),
    /// Every other candidate except the ceiling.
    Everyone,
    /// Thruway in another case.
    OurCase(String),
    /// No baseline: the bound limits the metric itself.
    Nothing,
}

/// The limit of the figure.
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
    /// The figure: the ratio to the baseline, or the value with its spread if there is no baseline.
    pub(crate) figure: Option<Ratio>,
    /// `true` if the median meets the bound.
    pub(crate) is_met: bool,
    /// `true` if the bound is within the interval, so that another run may have a different verdict.
    pub(crate) is_close: bool,
    /// `true` if requests to Thruway failed in the case. The target is then missed, and there is no figure.
    pub(crate) has_failed: bool,
}

/// Evaluates the targets of all cases that were measured or planned.
pub(crate) fn evaluate(report: &SuiteReport) -> Vec<TargetResult> {
    let is_of_interest = |target: &Target| {
        report.case(&target.case).is_some() || report.left_out.iter().any(|left| left.what == target.case)
    };
    let targets = TARGETS.iter().filter(|target| is_of_interest(target));
    targets.map(|target| target.evaluate(report)).collect()
}

/// All targets. The file is compiled into this program. An error in it ends every run, and a test detects it.
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
        Target::parse(case, text).unwrap_or_else(|| panic!("targets.toml: invalid bound `{text}`"))
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

    fn evaluate(&self, report: &SuiteReport) -> TargetResult {
        match &self.against {
            Baseline::Candidate(name) => {
                self.evaluated(report, &format!(" / {name}"), self.ratio(report, name))
            }
            Baseline::Everyone => self.against_everyone(report),
            Baseline::OurCase(other) => {
                self.evaluated(report, &format!(" / `{other}`"), self.to_case(report, other))
            }
            Baseline::Nothing => self.evaluated(report, "", self.value(report)),
        }
    }

    fn ratio(&self, report: &SuiteReport, name: &str) -> Option<Ratio> {
        let case = report.case(&self.case)?;
        self.metric.ratio(&case.ours()?.rounds, &case.candidate(name)?.rounds)
    }

    /// Compares with the closest candidate. If Thruway meets the bound with this candidate, it also meets the
    /// bound with all others.
    fn against_everyone(&self, report: &SuiteReport) -> TargetResult {
        let others = report.case(&self.case).into_iter().flat_map(CaseResult::other_candidates);
        let others = others.filter(|other| other.name != CEILING);
        let ratios = others.filter_map(|other| Some((&other.name, self.ratio(report, &other.name)?)));
        let compare = |a: &Ratio, b: &Ratio| match self.bound {
            Bound::AtLeast(_) => b.median.total_cmp(&a.median),
            Bound::AtMost(_) | Bound::Below(_) => a.median.total_cmp(&b.median),
        };
        match ratios.max_by(|(_, a), (_, b)| compare(a, b)) {
            Some((name, ratio)) => {
                self.evaluated(report, &format!(" / everyone (closest: {name})"), Some(ratio))
            }
            None => self.evaluated(report, " / everyone", None),
        }
    }

    fn to_case(&self, report: &SuiteReport, other: &str) -> Option<Ratio> {
        let values = |name: &str| self.metric.clean_values(&report.case(name)?.ours()?.rounds);
        Ratio::of_unpaired(&values(&self.case)?, &values(other)?)
    }

    fn value(&self, report: &SuiteReport) -> Option<Ratio> {
        Ratio::of_values(&self.metric.clean_values(&report.case(&self.case)?.ours()?.rounds)?)
    }

    /// Returns `true` if Thruway or requests to it failed, and the baseline has a figure.
    fn has_failed(&self, report: &SuiteReport) -> bool {
        let Some(case) = report.case(&self.case) else { return false };
        let is_there = match &self.against {
            Baseline::Candidate(name) => case.candidate(name).is_some(),
            Baseline::Everyone => case.other_candidates().any(|other| other.name != CEILING),
            Baseline::OurCase(other) => report.case(other).is_some(),
            Baseline::Nothing => true,
        };
        let other = match &self.against {
            Baseline::OurCase(other) => report.case(other),
            _ => None,
        };
        is_there && (fails(case) || other.is_some_and(fails))
    }

    fn evaluated(&self, report: &SuiteReport, against: &str, figure: Option<Ratio>) -> TargetResult {
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

/// Returns `true` if Thruway ended or a request to it failed.
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
            (_, true, true) => "met, but the interval contains the bound",
            (_, false, true) => "missed, but the interval contains the bound",
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

/// Name of a server that only writes a constant response. This server is always ahead.
pub(crate) const CEILING: &str = "ceiling";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CASES;
    use crate::tests::{case, report};

    #[test]
    fn targets_name_existing_cases() {
        let is_known = |name: &str| CASES.iter().any(|case| case.name == name);
        for target in TARGETS.iter() {
            assert!(is_known(&target.case), "no case `{}`", target.case);
            if let Baseline::OurCase(other) = &target.against {
                assert!(is_known(other), "no case `{other}`");
            }
        }
    }

    #[test]
    fn closest_candidate_decides_and_close_verdicts_are_marked() {
        let close = case(
            "plaintext c=16",
            &[
                ("thruway", &[9.0, 11.0, 9.5]),
                ("nginx", &[10.0; 3]),
                ("ceiling", &[8.0; 3]),
                ("h2o", &[20.0; 3]),
            ],
        );
        let evaluated = evaluate(&report(vec![close]));
        let [ceiling, target] = &evaluated[..] else { panic!("{evaluated:?}") };
        assert!(ceiling.target.ends_with("/ ceiling") && !ceiling.is_met);
        assert!(target.target.ends_with("closest: nginx)") && target.is_met && target.is_close);
        assert_eq!(target.verdict(), "met, but the interval contains the bound");
        // The closest candidate for a lower bound.
        let bridges = [
            ("thruway-bridge", &[1.0; 3][..]),
            ("supergateway", &[50.0; 3]),
            ("mcp-proxy-npm", &[19.0; 3]),
            ("mcp-proxy-python", &[30.0; 3]),
        ];
        let evaluated = evaluate(&report(vec![case("mcp bridge c=1", &bridges)]));
        let rate = evaluated.iter().find(|target| target.target.contains("requests/s")).unwrap();
        assert!(rate.target.ends_with("closest: mcp-proxy-npm)") && !rate.is_met && !rate.is_close);
    }

    /// A server that quickly failed half of its requests once met its targets.
    #[test]
    fn verdict_distinguishes_missed_failed_and_not_measured() {
        let both =
            |ours: f64| case("keep-alive without -k", &[("thruway", &[ours; 3]), ("nginx", &[10.0; 3])]);
        let verdicts = |case: CaseResult| {
            let evaluated = evaluate(&report(vec![case]));
            evaluated.iter().map(TargetResult::verdict).collect::<Vec<_>>()
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
        // The rounds before the server ended would be enough to meet the target.
        let mut dead = both(1.0);
        dead.candidates[0].failure = Some("the program ended with signal 9".to_owned());
        assert_eq!(verdicts(dead.clone()), ["missed: requests failed"; 4]);
        dead.candidates[0].rounds.clear();
        assert_eq!(verdicts(dead), ["missed: requests failed"; 4]);
        assert!(evaluate(&report(Vec::new())).is_empty());
    }
}
