//! A million messages of all kinds; the memory must not grow.

use std::time::Duration;

use thruway_bench::{Limit, Load, Report};

use crate::figures::{Figures, as_f64, kept};
use crate::process::anonymous_memory;

/// Makes each load for `duration` in turn until at least `requests` were answered. The first turn warms the
/// server up: its growth of memory does not count.
pub(crate) fn run(
    server: u32,
    loads: &[Load],
    requests: u64,
    duration: Duration,
    make: &mut dyn FnMut(&Load) -> Result<Report, String>,
) -> Result<Figures, String> {
    let mut turn = |sum: &mut Figures| -> Result<(), String> {
        for load in loads {
            let load = Load { limit: Limit::Duration(duration), warm_up: Duration::ZERO, ..load.clone() };
            let figures = Figures::of(&make(&load)?, None);
            if figures.answered == 0 {
                return Err("no request was answered".to_owned());
            }
            add(sum, figures);
        }
        Ok(())
    };
    let memory = || anonymous_memory(server).ok_or("its memory cannot be read");
    let mut warm_up = Figures::default();
    turn(&mut warm_up)?;
    let before = memory()?;
    let mut sum = Figures { failed: warm_up.failed, failure: warm_up.failure, ..Figures::default() };
    while sum.answered < requests {
        turn(&mut sum)?;
    }
    let after = memory()?;
    let (count, growth) = (as_f64(sum.answered), as_f64(after) - as_f64(before));
    Ok(Figures {
        rate: kept(count / sum.seconds),
        server_cpu: sum.server_cpu.map(|cpu| kept(cpu / count)),
        memory_growth: Some(growth),
        ..sum
    })
}

/// Adds the figures of a load to a sum, in which the CPU time is that of all requests together.
fn add(sum: &mut Figures, load: Figures) {
    let cpu = load.server_cpu.map(|cpu| cpu * as_f64(load.answered));
    sum.answered += load.answered;
    sum.failed += load.failed;
    if sum.failure.is_empty() {
        sum.failure = load.failure;
    }
    sum.seconds += load.seconds;
    sum.server_cpu = Some(sum.server_cpu.unwrap_or_default() + cpu.unwrap_or_default());
}
