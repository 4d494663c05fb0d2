//! What came out of all runs.

use serde::Serialize;
use thruway_bench::statistics::Summary;

use super::metric::{Metric, Sample};
use super::workloads::Case;

/// All that was measured, and what went wrong.
#[derive(Serialize)]
pub(super) struct Results {
    pub(super) comparisons: Vec<Comparison>,
    pub(super) failures: Vec<Failure>,
    /// Why the runs ended before all were done, if they did.
    pub(super) ended_early: Option<String>,
}

/// The runs of one case against one peer.
#[derive(Serialize)]
pub(super) struct Comparison {
    pub(super) case: &'static Case,
    pub(super) ours: &'static str,
    pub(super) peer: &'static str,
    pub(super) pairs: Vec<Pair>,
}

/// Two runs, one after the other.
#[derive(Serialize)]
pub(super) struct Pair {
    pub(super) ours: Sample,
    pub(super) peer: Sample,
}

/// A run that is no result.
#[derive(Serialize)]
pub(super) struct Failure {
    pub(super) case: &'static str,
    pub(super) server: &'static str,
    pub(super) error: String,
}

impl Results {
    /// The comparisons of a case.
    pub(super) fn of_case(&self, case: &str) -> impl Iterator<Item = &Comparison> {
        self.comparisons.iter().filter(move |comparison| comparison.case.name == case)
    }

    /// What our runs of a case gave for a metric, whoever was the peer, in the order of the runs.
    pub(super) fn ours(&self, case: &str, metric: Metric) -> Vec<f64> {
        self.of_case(case).flat_map(|comparison| comparison.values(metric, |pair| &pair.ours)).collect()
    }
}

impl Comparison {
    /// Our values of a metric.
    pub(super) fn ours_of(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric, |pair| &pair.ours))
    }

    /// The peer's values of a metric.
    pub(super) fn peer_of(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric, |pair| &pair.peer))
    }

    /// Ratios of a metric within each pair, ours to the peer's.
    pub(super) fn ratio_of(&self, metric: Metric) -> Option<Summary> {
        let both = |pair: &Pair| Some((*pair.ours.get(&metric)?, *pair.peer.get(&metric)?));
        Summary::of_ratios(&self.pairs.iter().filter_map(both).collect::<Vec<_>>())
    }

    fn values(&self, metric: Metric, side: impl Fn(&Pair) -> &Sample) -> Vec<f64> {
        self.pairs.iter().filter_map(|pair| side(pair).get(&metric).copied()).collect()
    }
}
