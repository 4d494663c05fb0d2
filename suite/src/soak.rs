//! Sends a million messages of all kinds, and measures the memory growth of the server.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use thruway_bench::{Limit, Load, Report};

use crate::figures::{Figures, Metric, as_f64};
use crate::process::anonymous_memory;

/// Runs each load in turn for `duration` until there are at least `requests` responses. The first turn is the
/// warm-up, and its memory growth does not count.
pub(crate) fn run(
    server: u32,
    loads: &[Load],
    requests: u64,
    duration: Duration,
    make: &dyn Fn(&Load) -> anyhow::Result<Report>,
) -> anyhow::Result<Figures> {
    // Runs all loads once, and adds up their figures and the CPU time of all requests in microseconds.
    let turn = |sum: &mut Figures, cpu: &mut f64| -> anyhow::Result<()> {
        for load in loads {
            let load = Load { limit: Limit::Duration(duration), warm_up: Duration::ZERO, ..load.clone() };
            let figures = Figures::of(&make(&load)?, None);
            ensure!(figures.answered > 0, "no request succeeded");
            *cpu += Metric::ServerCpu.of(&figures).unwrap_or_default() * as_f64(figures.answered);
            sum.answered += figures.answered;
            sum.failed += figures.failed;
            sum.seconds += figures.seconds;
            if sum.failure.is_empty() {
                sum.failure = figures.failure;
            }
        }
        Ok(())
    };
    let memory = || anonymous_memory(server).map(as_f64).context("cannot read the memory usage");
    let mut warm_up = Figures::default();
    turn(&mut warm_up, &mut 0.0)?;
    let (before, mut cpu) = (memory()?, 0.0);
    let mut sum = Figures { failed: warm_up.failed, failure: warm_up.failure, ..Figures::default() };
    while sum.answered < requests {
        turn(&mut sum, &mut cpu)?;
    }
    let growth = memory()? - before;
    let (count, seconds) = (as_f64(sum.answered), sum.seconds);
    let figures = sum.with(Metric::Rate, count / seconds).with(Metric::ServerCpu, cpu / count);
    Ok(figures.with(Metric::MemoryGrowth, growth))
}
