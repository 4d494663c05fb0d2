//! What must hold of gateways (W6): the same for each size and number of connections, so it is no table but loops.

use super::{Against, Bound, CPU, Target, against_peer};
use crate::bench::metric::Metric;

/// Both as they come; nginx with persistent connections to the backend.
const PEERS: [&str; 2] = ["haproxy-gateway", "nginx-gateway"];

const SMALL: [&str; 6] = [
    "gateway 2 B c=50",
    "gateway 2 B c=200",
    "gateway 2 B c=500",
    "gateway 4 KB c=50",
    "gateway 4 KB c=200",
    "gateway 4 KB c=500",
];

const LARGE: [&str; 2] = ["gateway 1 MB c=50", "gateway 1 MB c=200"];

const SHARED: &str = "gateway 2 B c=200 shared";

/// 3 KiB.
const IDLE_BYTES: f64 = 3072.0;

/// At least 0.85 of the rate of the smallest config, which is ours here.
const REALISTIC: Bound = Bound::AtMost(1.0 / 0.85);

pub(super) fn targets() -> impl Iterator<Item = Target> {
    SMALL.into_iter().flat_map(small).chain(LARGE.into_iter().flat_map(large)).chain([
        against_peer(SHARED, CPU, "haproxy-gateway", Bound::AtMost(0.66)),
        against_peer(SHARED, Metric::RequestsPerSecond, "haproxy-gateway", Bound::AtLeast(1.3)),
        // On one connection, the rate is one by the mean response time, of which the backend's part is the same for both.
        against_peer("gateway 2 B c=1", Metric::RequestsPerSecond, "nginx-gateway", Bound::AtLeast(1.0)),
        of_ours("gateway idle", Metric::ResidentPerConnection, Against::Nothing, Bound::AtMost(IDLE_BYTES)),
        of_ours(
            "gateway 2 B c=10000",
            Metric::RequestsPerSecond,
            Against::OurCase("gateway 2 B c=200"),
            Bound::AtLeast(0.6),
        ),
        of_ours("gateway reload", Metric::P99Growth, Against::Nothing, Bound::AtMost(2.0)),
        against_peer("gateway realistic", Metric::RequestsPerSecond, "thruway-realistic", REALISTIC),
    ])
}

fn small(case: &'static str) -> impl Iterator<Item = Target> {
    PEERS.into_iter().flat_map(move |peer| {
        [
            against_peer(case, CPU, peer, Bound::AtMost(0.85)),
            against_peer(case, Metric::RequestsPerSecond, peer, Bound::AtLeast(1.15)),
            against_peer(case, Metric::P99, peer, Bound::AtMost(1.0)),
        ]
    })
}

fn large(case: &'static str) -> impl Iterator<Item = Target> {
    let to_peers = PEERS.into_iter().flat_map(move |peer| {
        [
            against_peer(case, Metric::RequestsPerSecond, peer, Bound::AtLeast(1.0)),
            against_peer(case, Metric::P99, peer, Bound::AtMost(1.0)),
        ]
    });
    to_peers.chain([against_peer(case, CPU, "haproxy-tuned", Bound::AtMost(0.8))])
}

const fn of_ours(case: &'static str, metric: Metric, against: Against, bound: Bound) -> Target {
    Target { case, metric, against, bound }
}
