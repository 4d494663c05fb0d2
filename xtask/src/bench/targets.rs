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
    /// The figure of every peer.
    EveryPeer,
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
    // Clients of MCP
    against_peer("mcp client sequential", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(2.0)),
    against_peer("mcp client sequential, one core", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(2.0)),
    against_peer("mcp client 32 in flight", Metric::RequestsPerSecond, "rmcp", Bound::AtLeast(3.0)),
    against_peer("mcp client 32 in flight", Metric::CpuOfBoth, "rmcp", Bound::AtMost(0.333)),
    // Bridges
    bounded("mcp bridge c=1", Metric::CpuOfBridge, 40.0),
    bounded("mcp bridge c=16", Metric::CpuOfBridge, 40.0),
    twenty_times_every_peer("mcp bridge c=1"),
    twenty_times_every_peer("mcp bridge c=16"),
    // The command line
    bounded("mcp command", Metric::CpuPerRun, 25_000.0),
];

const fn against_peer(case: &'static str, metric: Metric, peer: &'static str, bound: Bound) -> Target {
    Target { case, metric, against: Against::Peer(peer), bound }
}

const fn bounded(case: &'static str, metric: Metric, most: f64) -> Target {
    Target { case, metric, against: Against::Nothing, bound: Bound::AtMost(most) }
}

const fn twenty_times_every_peer(case: &'static str) -> Target {
    let metric = Metric::RequestsPerSecond;
    Target { case, metric, against: Against::EveryPeer, bound: Bound::AtLeast(20.0) }
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
            Against::EveryPeer => self.judge_closest_peer(results),
            Against::OurCase(other) => {
                let (ours, others) = (results.ours(self.case, self.metric), results.ours(other, self.metric));
                let pairs: Vec<_> = ours.into_iter().zip(others).collect();
                self.verdict(&format!(" / `{other}`"), Summary::of_ratios(&pairs))
            }
            Against::Nothing => self.verdict("", Summary::of(&results.ours(self.case, self.metric))),
        }
    }

    /// What holds against the closest peer holds against every other.
    fn judge_closest_peer(&self, results: &Results) -> Verdict {
        let peers = results.of_case(self.case);
        let ratios =
            peers.filter_map(|comparison| Some((comparison.peer, comparison.ratio_of(self.metric)?)));
        let compare = |a: &Summary, b: &Summary| match self.bound {
            Bound::AtLeast(_) => b.median.total_cmp(&a.median),
            Bound::AtMost(_) => a.median.total_cmp(&b.median),
        };
        match ratios.max_by(|(_, a), (_, b)| compare(a, b)) {
            Some((peer, ratio)) => self.verdict(&format!(" / every peer (closest: {peer})"), Some(ratio)),
            None => self.verdict(" / every peer", None),
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
    use super::{Against, Bound, CPU, Metric, TARGETS, Verdict};

    #[test]
    fn targets_name_cases_and_peers_that_exist() {
        let is_case = |name: &str| CASES.iter().any(|case| case.name == name);
        for target in TARGETS {
            assert!(is_case(target.case), "no case {}", target.case);
            match target.against {
                Against::Peer(name) => assert!(peers::find(name).is_some(), "no peer {name}"),
                Against::OurCase(name) => assert!(is_case(name), "no case {name}"),
                Against::EveryPeer | Against::Nothing => {}
            }
        }
    }

    #[test]
    fn bounds_hold_up_to_and_including_their_value() {
        assert!(Bound::AtMost(1.0).holds(1.0) && Bound::AtLeast(1.0).holds(1.0));
    }

    fn judge(comparisons: Vec<Comparison>, selection: Selection) -> Vec<Verdict> {
        let results = Results { comparisons, failures: Vec::new(), ended_early: None };
        super::judge(&results, &select(selection, &[]).unwrap())
    }

    /// Our figures in a case, beside a peer that has 10.0.
    fn beside(peer: &'static str, case: &str, metric: Metric, ours: [f64; 3]) -> Comparison {
        let case = CASES.iter().find(|known| known.name == case).unwrap();
        let pair = |ours| Pair { ours: Sample::from([(metric, ours)]), peer: Sample::from([(metric, 10.0)]) };
        Comparison { case, ours: case.workload.ours(), peer, pairs: ours.map(pair).into() }
    }

    #[test]
    fn a_figure_is_judged_by_its_median_and_marked_when_the_spread_crosses_the_bound() {
        let comparison = beside("thruway-echo", "mcp call c=16", CPU, [13.0, 14.0, 13.2]);
        let verdicts = judge(vec![comparison], Selection::Mcp);
        let of = |part: &str| verdicts.iter().find(|verdict| verdict.target.contains(part)).unwrap();
        let echo = of("`mcp call c=16`: CPU per request / thruway-echo");
        assert!(echo.figure.is_some() && echo.met && echo.close);
        // That peer was not measured.
        assert!(of("/ rmcp").figure.is_none() && !of("/ rmcp").met);
    }

    #[test]
    fn every_peer_is_judged_by_the_closest() {
        let peers = [("supergateway", 500.0), ("mcp-proxy-npm", 190.0), ("mcp-proxy-python", 300.0)];
        let comparison = |(peer, rate)| beside(peer, "mcp bridge c=1", Metric::RequestsPerSecond, [rate; 3]);
        let verdicts = judge(peers.map(comparison).into(), Selection::McpBridge);
        let closest =
            verdicts.iter().find(|verdict| verdict.target.contains("closest: mcp-proxy-npm")).unwrap();
        assert!(!closest.met && !closest.close);
    }
}
