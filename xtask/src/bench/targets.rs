//! What must hold, as a table, and whether it does.

mod gateway;

use serde::Serialize;
use thruway_bench::statistics::Summary;

use super::metric::Metric;
use super::results::Results;
use super::workloads::Case;

/// Who is slower than none but by definition: targets against "every peer" leave it out.
const CEILING: &str = "ceiling";

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
    /// The figure of every peer but the ceiling.
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
    Below(f64),
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
    // W1
    against_peer("plaintext c=16", CPU, CEILING, Bound::AtMost(1.10)),
    against_peer("plaintext c=256", CPU, CEILING, Bound::AtMost(1.10)),
    against_every_peer("plaintext c=16"),
    against_every_peer("plaintext c=256"),
    // W2
    against_peer("pipelining depth 16", CPU, CEILING, Bound::AtMost(1.5)),
    against_peer("pipelining depth 100", CPU, CEILING, Bound::AtMost(1.5)),
    against_peer("pipelining depth 100", CPU, "hyper", Bound::AtMost(0.4)),
    against_every_peer("pipelining depth 16"),
    against_every_peer("pipelining depth 100"),
    // W3
    against_peer("keep-alive with -k", Metric::P99, "nginx", Bound::AtMost(1.0)),
    against_peer("keep-alive without -k", Metric::RequestsPerSecond, "nginx", Bound::AtLeast(1.0)),
    against_peer("keep-alive without -k", Metric::P98, "nginx", Bound::AtMost(1.0)),
    against_peer("keep-alive without -k", Metric::P99, "nginx", Bound::AtMost(1.0)),
    against_peer("keep-alive without -k", Metric::Longest, "nginx", Bound::AtMost(1.0)),
    // W7
    Target {
        case: "connections idle",
        metric: Metric::ResidentPerConnection,
        against: Against::Nothing,
        bound: Bound::AtMost(2048.0),
    },
    Target {
        case: "connections c=10000",
        metric: CPU,
        against: Against::OurCase("connections c=100"),
        bound: Bound::AtMost(1.5),
    },
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

const fn against_every_peer(case: &'static str) -> Target {
    Target { case, metric: CPU, against: Against::EveryPeer, bound: Bound::Below(1.0) }
}

const fn bounded(case: &'static str, metric: Metric, most: f64) -> Target {
    Target { case, metric, against: Against::Nothing, bound: Bound::AtMost(most) }
}

const fn twenty_times_every_peer(case: &'static str) -> Target {
    let metric = Metric::RequestsPerSecond;
    Target { case, metric, against: Against::EveryPeer, bound: Bound::AtLeast(20.0) }
}

/// All targets, in the order of the report.
fn all() -> impl Iterator<Item = Target> {
    TARGETS.iter().copied().chain(gateway::targets())
}

/// Holds the results against the targets of these cases.
pub(super) fn judge(results: &Results, cases: &[&Case]) -> Vec<Verdict> {
    let is_selected = |target: &Target| cases.iter().any(|case| case.name == target.case);
    all().filter(is_selected).map(|target| target.judge(results)).collect()
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
        let peers = results.of_case(self.case).filter(|comparison| comparison.peer != CEILING);
        let ratios =
            peers.filter_map(|comparison| Some((comparison.peer, comparison.ratio_of(self.metric)?)));
        let compare = |a: &Summary, b: &Summary| match self.bound {
            Bound::AtLeast(_) => b.median.total_cmp(&a.median),
            Bound::AtMost(_) | Bound::Below(_) => a.median.total_cmp(&b.median),
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
            Self::Below(bound) => figure < bound,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {bound:.2}"),
            Self::AtLeast(bound) => format!("≥ {bound:.2}"),
            Self::Below(bound) => format!("< {bound:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::Sample;
    use super::super::peers;
    use super::super::results::{Comparison, Pair, Results};
    use super::super::workloads::{CASES, Selection, select};
    use super::{Against, Bound, CPU, Verdict, all};

    #[test]
    fn targets_name_cases_and_peers_that_exist() {
        let is_case = |name: &str| CASES.iter().any(|case| case.name == name);
        for target in all() {
            assert!(is_case(target.case), "no case {}", target.case);
            match target.against {
                Against::Peer(name) => assert!(peers::find(name).is_some(), "no peer {name}"),
                Against::OurCase(name) => assert!(is_case(name), "no case {name}"),
                Against::EveryPeer | Against::Nothing => {}
            }
        }
    }

    #[test]
    fn bounds_hold_up_to_and_including_their_value_unless_below() {
        assert!(Bound::AtMost(1.0).holds(1.0) && Bound::AtLeast(1.0).holds(1.0));
        assert!(!Bound::Below(1.0).holds(1.0));
    }

    fn judge(results: &Results) -> Vec<Verdict> {
        super::judge(results, &select(Selection::Plaintext, &[], false).unwrap())
    }

    /// Results of `plaintext c=16` with our CPU times, beside peers that take 10.0.
    fn results(peers: &[(&'static str, [f64; 3])]) -> Results {
        let case = CASES.iter().find(|case| case.name == "plaintext c=16").unwrap();
        let pair = |ours: f64| Pair { ours: Sample::from([(CPU, ours)]), peer: Sample::from([(CPU, 10.0)]) };
        let comparison = |&(peer, ours): &(&'static str, [f64; 3])| Comparison {
            case,
            ours: "thruway",
            peer,
            pairs: ours.map(pair).into(),
        };
        Results {
            comparisons: peers.iter().map(comparison).collect(),
            failures: Vec::new(),
            ended_early: None,
        }
    }

    #[test]
    fn a_figure_is_judged_by_its_median_and_marked_when_the_spread_crosses_the_bound() {
        let verdicts = judge(&results(&[("ceiling", [10.5, 11.5, 10.8])]));
        assert!(verdicts[0].figure.is_some() && verdicts[0].met && verdicts[0].close);
        // The other case was not measured.
        assert!(verdicts[1].figure.is_none() && !verdicts[1].met);
    }

    #[test]
    fn every_peer_is_judged_by_the_closest_and_without_the_ceiling() {
        let results = results(&[("ceiling", [11.0; 3]), ("hyper", [8.0; 3]), ("nginx", [9.0; 3])]);
        let verdicts = judge(&results);
        let closest = verdicts.iter().find(|verdict| verdict.target.contains("closest: nginx")).unwrap();
        assert!(closest.met && !closest.close);
    }
}
