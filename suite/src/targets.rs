//! What the project has set itself, as a table, and what the figures say of it.

use std::fmt;

use crate::figures::{Figures, Metric};
use crate::results::{CaseResult, SuiteReport};
use thruway_bench::statistics::Ratio;

/// A figure that must hold.
#[derive(Clone, Debug)]
struct Target {
    case: String,
    metric: Metric,
    against: Against,
    bound: Bound,
}

/// What our figure is put in relation to.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// That of this candidate in the same rounds.
    Candidate(&'static str),
    /// That of every other candidate, but for the ceiling.
    Everyone,
    /// Our own in another case.
    OurCase(&'static str),
    /// Nothing: the figure itself is bounded.
    Nothing,
}

/// Where a figure must lie.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
}

/// A target, the figure that was measured, and what follows.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Judged {
    /// The target in words.
    pub(crate) target: String,
    /// The bound in words.
    pub(crate) bound: String,
    /// The figure that is bounded: a ratio, or a value with its spread for a target against nothing.
    pub(crate) figure: Option<Ratio>,
    /// Whether the median keeps the bound.
    pub(crate) is_met: bool,
    /// Whether the bound lies within the interval, so that another run may come out differently.
    pub(crate) is_close: bool,
    /// Whether requests to ours failed in that case: then there is no figure, and it is missed.
    pub(crate) has_failed: bool,
}

/// Holds the figures against the targets of the cases that were measured, or were to be.
pub(crate) fn judge(report: &SuiteReport) -> Vec<Judged> {
    let is_of_interest = |target: &Target| {
        report.case(&target.case).is_some() || report.left_out.iter().any(|left| left.what == target.case)
    };
    all().filter(is_of_interest).map(|target| target.judge(report)).collect()
}

fn all() -> impl Iterator<Item = Target> {
    single()
        .into_iter()
        .chain(gateway())
        .chain(closing())
        .chain(front())
        .chain(generators())
        .chain(tls())
        .chain(http2())
}

fn single() -> Vec<Target> {
    use Against::{Candidate, Everyone, Nothing, OurCase};
    use Bound::{AtLeast, AtMost, Below};
    use Metric::{
        BothCpu, Longest, MemoryGrowth, MemoryPerConnection, P98, P99, ProgramCpu, Rate, ServerCpu,
    };
    let nginx = Candidate("nginx");
    let rmcp = Candidate("rmcp");
    let ceiling = Candidate(CEILING);
    let table = [
        // W1
        ("plaintext c=16", ServerCpu, ceiling, AtMost(1.1)),
        ("plaintext c=256", ServerCpu, ceiling, AtMost(1.1)),
        ("plaintext c=16", ServerCpu, Everyone, Below(1.0)),
        ("plaintext c=256", ServerCpu, Everyone, Below(1.0)),
        // W2
        ("pipelining depth 16", ServerCpu, ceiling, AtMost(1.5)),
        ("pipelining depth 100", ServerCpu, ceiling, AtMost(1.5)),
        ("pipelining depth 16", ServerCpu, Everyone, Below(1.0)),
        ("pipelining depth 100", ServerCpu, Everyone, Below(1.0)),
        ("pipelining depth 100", ServerCpu, Candidate("hyper"), AtMost(0.4)),
        // W3
        ("keep-alive with -k", P99, nginx, AtMost(1.0)),
        ("keep-alive without -k", Rate, nginx, AtLeast(1.0)),
        ("keep-alive without -k", P98, nginx, AtMost(1.0)),
        ("keep-alive without -k", P99, nginx, AtMost(1.0)),
        ("keep-alive without -k", Longest, nginx, AtMost(1.0)),
        // W4
        ("mcp tools/call echo c=16", Rate, rmcp, AtLeast(4.0)),
        ("mcp tools/call echo c=32", Rate, rmcp, AtLeast(4.0)),
        ("mcp tools/call echo c=16", ServerCpu, rmcp, AtMost(0.27)),
        ("mcp tools/call echo c=32", ServerCpu, rmcp, AtMost(0.27)),
        // W5
        ("stdio tools/call echo, window 64", Rate, rmcp, AtLeast(3.0)),
        // W7
        ("connections held c=10000", MemoryPerConnection, Nothing, AtMost(2048.0)),
        ("connections busy c=10000", ServerCpu, OurCase("connections busy c=100"), AtMost(1.5)),
        // axum on our engine
        ("axum depth 1", Rate, Candidate("axum"), AtLeast(1.0)),
        ("axum depth 16", Rate, Candidate("axum"), AtLeast(1.5)),
        ("axum depth 16", Rate, Candidate("axum-flush"), AtLeast(1.5)),
        // MCP SDKs over HTTP
        ("mcp call c=16", Rate, rmcp, AtLeast(4.0)),
        ("mcp call c=32", Rate, rmcp, AtLeast(4.0)),
        ("mcp call c=16", ServerCpu, rmcp, AtMost(0.27)),
        ("mcp call c=32", ServerCpu, rmcp, AtMost(0.27)),
        ("mcp list c=16", Rate, rmcp, AtLeast(5.0)),
        ("mcp call c=16", ServerCpu, Candidate("thruway-echo"), AtMost(1.35)),
        // On one connection, the rate is one by the mean response time, which may be 1.15 times as long.
        ("mcp call c=1", Rate, Candidate("thruway-echo"), AtLeast(0.87)),
        ("mcp legacy call c=16", ServerCpu, OurCase("mcp call c=16"), AtMost(1.15)),
        ("mcp legacy call c=16", ServerCpu, Candidate("axum-fixed"), AtMost(1.0)),
        ("mcp legacy ping c=16", ServerCpu, Candidate("axum-fixed"), AtMost(1.0)),
        // MCP SDKs over pipes: the mean round trip may be 1.2 times as long
        ("mcp stdio call w=1", Rate, Candidate("pipe-echo"), AtLeast(0.83)),
        ("mcp stdio call w=64", Rate, rmcp, AtLeast(3.0)),
        ("mcp soak", MemoryGrowth, Nothing, AtMost(SOAK_GROWTH)),
        // MCP clients
        ("mcp client sequential", Rate, rmcp, AtLeast(2.0)),
        ("mcp client sequential, one core", Rate, rmcp, AtLeast(2.0)),
        ("mcp client 32 in flight", Rate, rmcp, AtLeast(3.0)),
        ("mcp client 32 in flight", BothCpu, rmcp, AtMost(0.333)),
        // Bridges, and the command line
        ("mcp bridge c=1", ProgramCpu, Nothing, AtMost(40.0)),
        ("mcp bridge c=16", ProgramCpu, Nothing, AtMost(40.0)),
        ("mcp bridge c=1", Rate, Everyone, AtLeast(20.0)),
        ("mcp bridge c=16", Rate, Everyone, AtLeast(20.0)),
        ("mcp command", ProgramCpu, Nothing, AtMost(25_000.0)),
    ];
    table
        .map(|(case, metric, against, bound)| Target { case: case.to_owned(), metric, against, bound })
        .into()
}

/// W6: the same for each size and number of connections.
fn gateway() -> impl Iterator<Item = Target> {
    const SMALL: &[(Metric, Bound)] = &small(0.85);
    const BESIDE_NEWEST: &[(Metric, Bound)] = &small(0.75);
    const LARGE: &[(Metric, Bound)] =
        &[(Metric::Rate, Bound::AtLeast(1.0)), (Metric::P99, Bound::AtMost(1.0))];
    const fn small(cpu: f64) -> [(Metric, Bound); 3] {
        [
            (Metric::ServerCpu, Bound::AtMost(cpu)),
            (Metric::Rate, Bound::AtLeast(1.15)),
            (Metric::P99, Bound::AtMost(1.0)),
        ]
    }
    let sizes = [("2 B", SMALL, BESIDE_NEWEST), ("4 KB", SMALL, BESIDE_NEWEST), ("1 MB", LARGE, &[])];
    let cases = sizes
        .into_iter()
        .flat_map(|(size, old, new)| [50, 200, 500].map(|c| (format!("gateway {size} c={c}"), old, new)));
    cases.flat_map(|(case, old, new)| {
        let peers = [("haproxy", old), ("nginx", old), ("haproxy-newest", new)];
        peers.into_iter().flat_map(move |(peer, bounds)| {
            let case = case.clone();
            bounds.iter().map(move |&(metric, bound)| {
                let against = Against::Candidate(peer);
                Target { case: case.clone(), metric, against, bound }
            })
        })
    })
}

/// W6: before a backend that closes its connections, which is what limits all.
fn closing() -> impl Iterator<Item = Target> {
    let cases = ["2 B", "4 KB", "1 MB"].into_iter().flat_map(|size| [50, 200, 500].map(|c| (size, c)));
    cases.flat_map(|(size, connections)| {
        [(Metric::Rate, Bound::AtLeast(1.0)), (Metric::P99, Bound::AtMost(1.0))].map(|(metric, bound)| {
            Target {
                case: format!("gateway before a closing backend {size} c={connections}"),
                metric,
                against: Against::Candidate("haproxy"),
                bound,
            }
        })
    })
}

/// W6: what no size and number of connections shows.
fn front() -> impl Iterator<Item = Target> {
    use Against::{Candidate, Nothing, OurCase};
    use Bound::{AtLeast, AtMost};
    use Metric::{MemoryPerConnection, P99, Rate, ServerCpu};
    let table = [
        ("gateway 1 MB c=50", ServerCpu, Candidate("haproxy-tuned"), AtMost(0.8)),
        ("gateway 1 MB c=200", ServerCpu, Candidate("haproxy-tuned"), AtMost(0.8)),
        ("gateway 1 MB c=500", ServerCpu, Candidate("haproxy-tuned"), AtMost(0.8)),
        ("gateway 2 B c=200, shared cores", ServerCpu, Candidate("haproxy"), AtMost(0.66)),
        ("gateway 2 B c=200, shared cores", Rate, Candidate("haproxy"), AtLeast(1.3)),
        ("gateway 2 B c=200, shared cores", ServerCpu, Candidate("haproxy-newest"), AtMost(0.6)),
        ("gateway 2 B c=200, shared cores", Rate, Candidate("haproxy-newest"), AtLeast(1.3)),
        // On one connection, the rate is one by the mean time, of which the backend's part is the same for both.
        ("gateway 2 B c=1", Rate, Candidate("nginx"), AtLeast(1.0)),
        ("gateway held c=10000", MemoryPerConnection, Nothing, AtMost(3072.0)),
        ("gateway 2 B c=10000", Rate, OurCase("gateway 2 B c=200"), AtLeast(0.6)),
        ("gateway reloads c=200", P99, Candidate("thruway left alone"), AtMost(2.0)),
        // With much in the config at least 0.85 of the rate of the smallest one, which is ours here.
        ("gateway realistic config c=200", Rate, Candidate("thruway-realistic"), AtMost(1.0 / 0.85)),
    ];
    table.into_iter().map(|(case, metric, against, bound)| Target {
        case: case.to_owned(),
        metric,
        against,
        bound,
    })
}

/// The load generator itself, beside wrk and a loop over pipes.
fn generators() -> impl Iterator<Item = Target> {
    let on_pipes = [1, 16].map(|window| Target {
        case: format!("stdio tools/call echo, window {window}, by a hand-written loop"),
        metric: Metric::Rate,
        against: Against::Candidate("hand-written loop"),
        bound: Bound::AtLeast(1.0),
    });
    beside_wrk().chain(on_pipes)
}

fn beside_wrk() -> impl Iterator<Item = Target> {
    ["plaintext c=16", "plaintext c=256", "pipelining depth 16"].into_iter().flat_map(|case| {
        let bounds = [(Metric::Rate, Bound::AtLeast(1.0)), (Metric::GeneratorCpu, Bound::AtMost(1.1))];
        bounds.map(|(metric, bound)| Target {
            case: format!("{case}, by other load generators"),
            metric,
            against: Against::Candidate("wrk"),
            bound,
        })
    })
}

/// W8: beside servers with the same certificate.
fn tls() -> impl Iterator<Item = Target> {
    const CPU: (Metric, Bound) = (Metric::ServerCpu, Bound::AtMost(1.0));
    const RATE: (Metric, Bound) = (Metric::Rate, Bound::AtLeast(1.0));
    const HANDSHAKES: (Metric, Bound) = (Metric::HandshakeRate, Bound::AtLeast(1.0));
    let both = ["nginx", "haproxy"].into_iter().flat_map(|peer| {
        [
            ("2 B c=64", CPU),
            ("4 KB c=64", CPU),
            ("full handshakes c=32", HANDSHAKES),
            ("resumed handshakes c=32", HANDSHAKES),
        ]
        .map(|(case, bound)| (format!("tls {case}"), peer, bound))
    });
    both.chain([("tls 1 MB c=16".to_owned(), "nginx", RATE)]).map(target)
}

/// W9: beside servers, and beside a gateway.
fn http2() -> impl Iterator<Item = Target> {
    const RATE: (Metric, Bound) = (Metric::Rate, Bound::AtLeast(1.0));
    const P99: (Metric, Bound) = (Metric::P99, Bound::AtMost(1.0));
    ["2 B", "4 KB"].into_iter().flat_map(|size| {
        let server = format!("http2 {size} c=8 m=32");
        let servers = ["hyper", "nginx"].into_iter().flat_map(move |peer| {
            let server = server.clone();
            [RATE, P99].map(move |bound| (server.clone(), peer, bound))
        });
        let gateway = (format!("http2 gateway {size} c=8 m=32"), "haproxy", RATE);
        servers.chain([gateway]).map(target)
    })
}

fn target((case, peer, (metric, bound)): (String, &'static str, (Metric, Bound))) -> Target {
    Target { case, metric, against: Against::Candidate(peer), bound }
}

impl Target {
    fn judge(&self, report: &SuiteReport) -> Judged {
        match self.against {
            Against::Candidate(name) => self.judged(report, &format!(" / {name}"), self.ratio(report, name)),
            Against::Everyone => self.against_everyone(report),
            Against::OurCase(other) => {
                self.judged(report, &format!(" / `{other}`"), self.to_case(report, other))
            }
            Against::Nothing => self.judged(report, "", self.value(report)),
        }
    }

    fn ratio(&self, report: &SuiteReport, name: &str) -> Option<Ratio> {
        let case = report.case(&self.case)?;
        self.metric.ratio(&case.ours()?.rounds, &case.candidate(name)?.rounds)
    }

    /// What holds against the closest holds against every other.
    fn against_everyone(&self, report: &SuiteReport) -> Judged {
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

    /// Whether ours, or requests to it, failed, where there was somebody to hold it against.
    fn has_failed(&self, report: &SuiteReport) -> bool {
        let Some(case) = report.case(&self.case) else { return false };
        let is_there = match self.against {
            Against::Candidate(name) => case.candidate(name).is_some(),
            Against::Everyone => case.others().any(|other| other.name != CEILING),
            Against::OurCase(other) => report.case(other).is_some(),
            Against::Nothing => true,
        };
        let other = match self.against {
            Against::OurCase(other) => report.case(other),
            _ => None,
        };
        is_there && (fails(case) || other.is_some_and(fails))
    }

    fn judged(&self, report: &SuiteReport, against: &str, figure: Option<Ratio>) -> Judged {
        let has_failed = self.has_failed(report);
        let figure = figure.filter(|_| !has_failed);
        Judged {
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

/// Whether ours ended, or did not answer everything.
fn fails(case: &CaseResult) -> bool {
    let ours = case.candidates.first();
    ours.is_some_and(|ours| ours.failure.is_some() || !ours.rounds.iter().all(Figures::is_clean))
}

impl Judged {
    /// What follows, in words.
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

/// Growth that an allocator may need over a million messages, in octets: a quarter of an octet for each.
const SOAK_GROWTH: f64 = 256.0 * 1024.0;

/// Who does nothing but answer is ahead by definition.
pub(crate) const CEILING: &str = "ceiling";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Workload;
    use crate::cases::cases;
    use crate::tests::{case, report};

    #[test]
    fn targets_name_cases_that_exist() {
        let known = cases(&Workload::ALL);
        let is_known = |name: &str| known.iter().any(|case| case.name == name);
        for target in all() {
            assert!(is_known(&target.case), "no case `{}`", target.case);
            if let Against::OurCase(other) = target.against {
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
    }

    #[test]
    fn everyone_is_the_closest_for_a_lower_bound_too() {
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

    #[test]
    fn what_is_missed_and_what_was_not_measured_are_told_apart() {
        let slow = case("keep-alive without -k", &[("thruway", &[30.0; 3]), ("nginx", &[10.0; 3])]);
        let judged = judge(&report(vec![slow]));
        let verdicts: Vec<_> = judged.iter().map(Judged::verdict).collect();
        assert_eq!(verdicts, ["missed", "missed", "missed", "missed"]);
        let alone = case("keep-alive without -k", &[("thruway", &[30.0; 3])]);
        assert!(judge(&report(vec![alone])).iter().all(|judged| judged.verdict() == "not measured"));
        assert!(judge(&report(Vec::new())).is_empty());
    }

    /// A server that failed half of its requests, and quickly, met its targets.
    #[test]
    fn who_fails_requests_misses_and_nobody_is_behind_one_who_does() {
        let verdicts = |failing: usize| {
            let mut both = case("keep-alive without -k", &[("thruway", &[1.0; 3]), ("nginx", &[10.0; 3])]);
            both.candidates[failing].rounds[1].failed = 1;
            let judged = judge(&report(vec![both]));
            assert!(judged.iter().all(|judged| !judged.is_met && judged.figure.is_none()), "{judged:?}");
            judged.iter().map(Judged::verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(0), ["missed: requests failed"; 4]);
        assert_eq!(verdicts(1), ["not measured"; 4]);
    }
}
