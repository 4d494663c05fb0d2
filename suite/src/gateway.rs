//! The cases of W6: gateways before a backend that keeps its connections, before one that closes them, with very few and very many
//! clients, on shared cores, with much in the config, and while that is read again.

use crate::case::{Between, Case, Circumstance, Peers, Request, Workload};
use crate::floor::{RELAY, TEN_THOUSAND, TWO_HUNDRED};

/// All of them, in the order in which they run.
pub(crate) fn cases() -> Vec<Case> {
    let sizes =
        [("", Between::Gateways, 0), (" before a closing backend", Between::GatewaysBeforeClosing, 2)];
    let mut cases: Vec<_> = sizes.into_iter().flat_map(by_size).collect();
    cases.extend(at_the_edges());
    cases.extend(of_settings());
    cases
}

fn by_size((what, between, rank): (&str, Between, u8)) -> Vec<Case> {
    let case = |(size, target, octets): (&str, &'static str, u64), connections: u32| {
        let name = format!("gateway{what} {size} c={connections}");
        let is_large = octets > 1 << 16;
        let peers = match rank {
            // Who splices is a peer only where there is something to splice, and no relay that copies is its floor.
            0 if is_large => Peers::AllAnd(&["haproxy-tuned"]),
            0 if name == TWO_HUNDRED => Peers::AllAnd(&["haproxy-newest", "nginx-newest", RELAY]),
            0 => Peers::AllAnd(NEWEST_AND_RELAY),
            // Who reads no HTTP cannot send a request again.
            _ => Peers::All,
        };
        let rank = rank + u8::from(connections != 200);
        let request = Request::Get(target, octets);
        Case { between, peers, rank, ..Case::new(Workload::Gateway, name, request, connections) }
    };
    SIZES.into_iter().flat_map(|size| [50, 200, 500].map(|connections| case(size, connections))).collect()
}

/// Very few clients, very many, and no core that anything has alone.
fn at_the_edges() -> Vec<Case> {
    let edge = |name: &str, connections: u32| Case { rank: 1, ..small(name, connections) };
    // A process has 20,000 descriptors at most. nginx cannot queue what is beyond them.
    let queueing = Peers::Only(&["haproxy", RELAY]);
    let shared = edge("gateway 2 B c=200, shared cores", 200);
    vec![
        edge("gateway 2 B c=1", 1),
        Case { circumstance: Circumstance::SharedCores, peers: Peers::AllAnd(NEWEST_AND_RELAY), ..shared },
        // Each connection is used while it warms up.
        Case { rate: Some(5000.0), ..edge("gateway held c=10000", 10_000) },
        Case { peers: queueing, ..edge(TEN_THOUSAND, 10_000) },
    ]
}

/// Ours with the smallest config beside ours with more in it, and while the config is read every 200 ms beside ours that is left alone.
fn of_settings() -> Vec<Case> {
    let settings = |name: &str, peers, rank| Case { peers, rank, ..small(name, 200) };
    vec![
        settings("gateway realistic config c=200", Peers::Only(&["thruway-realistic"]), 1),
        Case { circumstance: Circumstance::Reloads, ..settings("gateway reloads c=200", Peers::None, 1) },
        settings("gateway single settings c=200", Peers::Only(SINGLE_SETTINGS), 3),
    ]
}

fn small(name: &str, connections: u32) -> Case {
    let (_, target, octets) = SIZES[0];
    let case = Case::new(Workload::Gateway, name, Request::Get(target, octets), connections);
    Case { between: Between::Gateways, ..case }
}

/// What stands beside the peers of the machine where answers are small.
const NEWEST_AND_RELAY: &[&str] = &["haproxy-newest", RELAY];

pub(crate) const SIZES: [(&str, &str, u64); 3] = [
    ("2 B", "/ok", 2),
    ("4 KB", "/download?bytes=4096", 4096),
    ("1 MB", "/download?bytes=1048576", 1_048_576),
];

const SINGLE_SETTINGS: &[&str] = &[
    "thruway-routes",
    "thruway-servers",
    "thruway-access-log",
    "thruway-metrics",
    "thruway-checks",
    "thruway-rewriting",
    "thruway-policies",
];
