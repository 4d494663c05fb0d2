//! What must hold, as a table, and whether it does.

use serde::Serialize;
use thruway_bench::statistics::Summary;

use super::metric::Metric;
use super::results::Results;
use super::workloads::Case;

/// A figure that must hold.
#[derive(Clone, Copy)]
struct Target {
    case: &'static str,
    metric: Metric,
    against: Against,
    bound: Bound,
}

/// What our figure is put in relation to.
#[derive(Clone, Copy)]
enum Against {
    /// This peer's figure of the same pair.
    Peer(&'static str),
    /// Our own figure in another case.
    OurCase(&'static str),
    /// Nothing: the figure itself is bounded.
    Nothing,
}

/// Where a figure must lie.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// A target, the figure that was measured, and what follows.
#[derive(Serialize)]
pub(super) struct Verdict {
    /// The target in words.
    pub(super) target: String,
    /// The bound in words.
    pub(super) bound: String,
    /// The figure that is bounded, if it was measured: a ratio, or a value for a target against nothing.
    pub(super) figure: Option<Summary>,
    /// Whether the median keeps the bound.
    pub(super) met: bool,
    /// Whether the bound lies within the spread, so that another run may come out differently.
    pub(super) close: bool,
}

const CPU: Metric = Metric::CpuPerRequest;

/// What an allocator may take more, in octets, over a million messages: a quarter of an octet for each.
const SOAK_GROWTH: f64 = 256.0 * 1024.0;

const TARGETS: &[Target] = &[
    // axum mounted on our engine
    against_peer("axum depth 1", Metric::RequestsPerSecond, "axum", Bound::AtLeast(1.0)),
    against_peer("axum depth 16", Metric::RequestsPerSecond, "axum", Bound::AtLeast(1.5)),
    against_peer("axum depth 16", Metric::RequestsPerSecond, "axum-flush", Bound::AtLeast(1.5)),
    // W4
    against_peer("mcp call c=16", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(4.0)),
    against_peer("mcp call c=32", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(4.0)),
    against_peer("mcp call c=16", CPU, "rmcp", Bound::AtMost(0.27)),
    against_peer("mcp call c=32", CPU, "rmcp", Bound::AtMost(0.27)),
    against_peer("mcp list c=16", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(5.0)),
    against_peer("mcp call c=16", CPU, "thruway-echo", Bound::AtMost(1.35)),
    // On one connection, the rate is one by the mean response time, which is to be at most 1.15.
    against_peer("mcp call c=1", Metric::RequestsPerSecond, "thruway-echo", Bound::AtLeast(0.87)),
    Target {
        case: "mcp legacy call c=16",
        metric: CPU,
        against: Against::OurCase("mcp call c=16"),
        bound: Bound::AtMost(1.15),
    },
    against_peer("mcp legacy call c=16", CPU, "axum-fixed", Bound::AtMost(1.0)),
    against_peer("mcp legacy ping c=16", CPU, "axum-fixed", Bound::AtMost(1.0)),
    // W5: the mean round trip is to be at most 1.2
    against_peer("mcp stdio call w=1", Metric::RequestsPerSecond, "pipe-echo", Bound::AtLeast(0.83)),
    against_peer("mcp stdio call w=64", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(3.0)),
    Target {
        case: "mcp soak",
        metric: Metric::AnonymousGrowth,
        against: Against::Nothing,
        bound: Bound::AtMost(SOAK_GROWTH),
    },
];

const fn against_peer(case: &'static str, metric: Metric, peer: &'static str, bound: Bound) -> Target {
    Target { case, metric, against: Against::Peer(peer), bound }
}

/// Holds the results against the targets of these cases.
pub(super) fn judge(results: &Results, cases: &[&Case]) -> Vec<Verdict> {
    let is_selected = |target: &&Target| cases.iter().any(|case| case.name == target.case);
    TARGETS.iter().filter(is_selected).map(|target| target.judge(results)).collect()
}

impl Target {
    fn judge(&self, results: &Results) -> Verdict {
        match self.against {
            Against::Peer(name) => {
                let comparison = results.of_case(self.case).find(|comparison| comparison.peer == name);
                let figure = comparison.and_then(|comparison| comparison.ratio_of(self.metric));
                self.verdict(&format!(" / {name}"), figure)
            }
            Against::OurCase(other) => {
                let (ours, others) = (results.ours(self.case, self.metric), results.ours(other, self.metric));
                let pairs: Vec<_> = ours.into_iter().zip(others).collect();
                self.verdict(&format!(" / `{other}`"), Summary::of_ratios(&pairs))
            }
            Against::Nothing => self.verdict("", Summary::of(&results.ours(self.case, self.metric))),
        }
    }

    fn verdict(&self, against: &str, figure: Option<Summary>) -> Verdict {
        Verdict {
            target: format!("`{}`: {}{against}", self.case, self.metric.label()),
            bound: self.bound.describe(),
            figure,
            met: figure.is_some_and(|figure| self.bound.holds(figure.median)),
            close: figure.is_some_and(|figure| self.bound.holds(figure.min) != self.bound.holds(figure.max)),
        }
    }
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {bound:.2}"),
            Self::AtLeast(bound) => format!("≥ {bound:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::Sample;
    use super::super::peers;
    use super::super::results::{Comparison, Pair, Results};
    use super::super::workloads::{CASES, Selection, select};
    use super::{Against, Bound, CPU, TARGETS};

    #[test]
    fn targets_name_cases_and_peers_that_exist() {
        let is_case = |name: &str| CASES.iter().any(|case| case.name == name);
        for target in TARGETS {
            assert!(is_case(target.case), "no case {}", target.case);
            match target.against {
                Against::Peer(name) => assert!(peers::find(name).is_some(), "no peer {name}"),
                Against::OurCase(name) => assert!(is_case(name), "no case {name}"),
                Against::Nothing => {}
            }
        }
    }

    #[test]
    fn bounds_hold_up_to_and_including_their_value() {
        assert!(Bound::AtMost(1.0).holds(1.0) && Bound::AtLeast(1.0).holds(1.0));
    }

    #[test]
    fn a_figure_is_judged_by_its_median_and_marked_when_the_spread_crosses_the_bound() {
        let case = CASES.iter().find(|case| case.name == "mcp call c=16").unwrap();
        let pair = |ours: f64| Pair { ours: Sample::from([(CPU, ours)]), peer: Sample::from([(CPU, 10.0)]) };
        let pairs = [13.0, 14.0, 13.2].map(pair).into();
        let comparisons = vec![Comparison { case, ours: "mcp-on-thruway", peer: "thruway-echo", pairs }];
        let results = Results { comparisons, failures: Vec::new(), ended_early: None };
        let verdicts = super::judge(&results, &select(Selection::Mcp, &[]).unwrap());
        let of = |part: &str| verdicts.iter().find(|verdict| verdict.target.contains(part)).unwrap();
        let echo = of("`mcp call c=16`: CPU per request / thruway-echo");
        assert!(echo.figure.is_some() && echo.met && echo.close);
        // That peer was not measured.
        assert!(of("/ rmcp").figure.is_none() && !of("/ rmcp").met);
    }
}
