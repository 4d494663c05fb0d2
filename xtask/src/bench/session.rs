//! All runs: the one loop over the plan, with progress and time left.

use super::measure;
use super::metric::Sample;
use super::plan::{Plan, PlannedPair};
use super::prepare::Prepared;
use super::results::{Comparison, Failure, Pair, Results};
use super::settle;
use crate::stop::{Stop, now};

/// Runs the plan. A run that is no result is said at once and in the results, and its peer is not run again in this
/// case; the others go on.
pub(super) fn run(plan: &Plan<'_>, stop: &Stop) -> Results {
    let mut session = Session {
        plan,
        stop,
        results: Results { comparisons: Vec::new(), failures: Vec::new(), ended_early: None },
    };
    let started = now();
    let all = plan.estimated_seconds(0);
    for (index, pair) in plan.pairs.iter().enumerate() {
        let left = plan.estimated_seconds(index);
        // Once something was measured, what is left is taken to be as far from its estimate as that was.
        let pace = if index < 10 { 1.0 } else { started.elapsed().as_secs_f64() / (all - left) };
        session.show(index, left * pace);
        if let Err(error) = session.settle(index).and_then(|()| session.run_pair(pair)) {
            eprintln!("ending early: {error:#}");
            session.results.ended_early = Some(format!("{error:#}"));
            break;
        }
    }
    session.results
}

struct Session<'a> {
    plan: &'a Plan<'a>,
    stop: &'a Stop,
    results: Results,
}

impl Session<'_> {
    fn show(&self, index: usize, seconds_left: f64) {
        let PlannedPair { case, ours, peer, round } = &self.plan.pairs[index];
        let n = self.plan.pairs.len();
        let (ours, peer) = (ours.peer.name, peer.peer.name);
        let minutes = (seconds_left / 60.0).ceil();
        eprintln!("[{}/{n}, {minutes} min left] {}: {ours} and {peer}, round {round}", index + 1, case.name);
    }

    /// Begins a case with few connections left of the one before.
    ///
    /// # Errors
    /// Only when it is time to end.
    fn settle(&self, index: usize) -> anyhow::Result<()> {
        let case = |index: usize| self.plan.pairs[index].case.name;
        if index > 0 && case(index) == case(index - 1) { self.stop.check() } else { settle::wait(self.stop) }
    }

    /// Runs a pair and keeps it if both runs are results.
    ///
    /// # Errors
    /// Only when it is time to end.
    fn run_pair(&mut self, pair: &PlannedPair<'_>) -> anyhow::Result<()> {
        if self.failed(pair.case.name, pair.ours) || self.failed(pair.case.name, pair.peer) {
            eprintln!("  left out: a run of it has failed");
            return Ok(());
        }
        let Some(ours) = self.run_one(pair, pair.ours)? else { return Ok(()) };
        let Some(peer) = self.run_one(pair, pair.peer)? else { return Ok(()) };
        self.comparison(pair).pairs.push(Pair { ours, peer });
        Ok(())
    }

    fn failed(&self, case: &str, server: &Prepared) -> bool {
        self.results.failures.iter().any(|failure| failure.case == case && failure.server == server.peer.name)
    }

    fn run_one(&mut self, pair: &PlannedPair<'_>, server: &Prepared) -> anyhow::Result<Option<Sample>> {
        match measure::run(server, pair.case.load, self.plan.seconds, self.stop) {
            Ok(sample) => {
                let figures: Vec<_> =
                    sample.iter().map(|(m, value)| format!("{} {}", m.label(), m.format(*value))).collect();
                eprintln!("  {}: {}", server.peer.name, figures.join(", "));
                Ok(Some(sample))
            }
            Err(error) => {
                self.stop.check()?;
                eprintln!("  FAILED: {} in `{}`: {error:#}", server.peer.name, pair.case.name);
                let (case, server) = (pair.case.name, server.peer.name);
                self.results.failures.push(Failure { case, server, error: format!("{error:#}") });
                Ok(None)
            }
        }
    }

    fn comparison(&mut self, pair: &PlannedPair<'_>) -> &mut Comparison {
        let (case, ours, peer) = (pair.case, pair.ours.peer.name, pair.peer.peer.name);
        let comparisons = &mut self.results.comparisons;
        let known = comparisons.iter().position(|known| known.case.name == case.name && known.peer == peer);
        let index = known.unwrap_or_else(|| {
            comparisons.push(Comparison { case, ours, peer, pairs: Vec::new() });
            comparisons.len() - 1
        });
        &mut comparisons[index]
    }
}
