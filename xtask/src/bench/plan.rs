//! Which runs there are, in which order, and how long they take.

use std::path::Path;

use anyhow::bail;

use super::Options;
use super::peers::Peer;
use super::prepare::{Prepared, Ready};
use super::workloads::Case;
use super::{bridge, command};

/// All pairs of runs of one invocation, in order.
pub(super) struct Plan<'a> {
    pub(super) pairs: Vec<PlannedPair<'a>>,
    /// Cases in which ours is missing or has no part, with the name of ours.
    pub(super) left_out: Vec<(&'static str, &'static str)>,
    /// The program behind bridges.
    pub(super) behind_bridges: Option<&'a Path>,
    /// The server that commands talk to.
    pub(super) beside_commands: Option<&'a Prepared>,
    /// Seconds of a run by `wrk`.
    pub(super) seconds: u32,
}

/// One run of ours and one of a peer after it.
pub(super) struct PlannedPair<'a> {
    pub(super) case: &'static Case,
    pub(super) ours: &'a Prepared,
    pub(super) peer: &'a Prepared,
    /// Which round it belongs to, from 1.
    pub(super) round: u32,
}

impl<'a> Plan<'a> {
    /// Plans rounds of pairs for each case. A round goes through all peers, so that a machine that slows down meanwhile
    /// slows all of them down alike.
    ///
    /// # Errors
    /// When there is nothing to run.
    pub(super) fn new(
        options: &Options,
        cases: &[&'static Case],
        peers: &[&'static Peer],
        ready: &'a Ready,
    ) -> anyhow::Result<Self> {
        let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
        for &case in cases {
            let ours = ready.ours.unwrap_or(case.workload.ours());
            let Some(ours) = ready.find(ours).filter(|ours| ours.peer.workloads.contains(&case.workload))
            else {
                left_out.push((case.name, ours));
                continue;
            };
            let takes_part =
                |peer: &&&Peer| peer.workloads.contains(&case.workload) && peer.name != ours.peer.name;
            let others: Vec<_> =
                peers.iter().filter(takes_part).filter_map(|peer| ready.find(peer.name)).collect();
            for round in 1..=options.pairs {
                pairs.extend(others.iter().map(|&peer| PlannedPair { case, ours, peer, round }));
            }
        }
        if pairs.is_empty() {
            bail!(
                "there is nothing to run: ours or every peer is missing\n\nhint: `--ours ceiling` measures peers"
            );
        }
        Ok(Self {
            pairs,
            left_out,
            behind_bridges: bridge::behind(ready),
            beside_commands: ready.find(command::BESIDE),
            seconds: options.seconds,
        })
    }

    /// About how long the pairs from `first` on take.
    pub(super) fn estimated_seconds(&self, first: usize) -> f64 {
        let estimates = self.pairs[first..].iter().map(|pair| pair.case.load.estimated_seconds(self.seconds));
        2.0 * estimates.sum::<f64>()
    }
}
