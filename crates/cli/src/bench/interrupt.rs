//! Ctrl-C: the first ends the load with what was measured, the second ends the process and what it has started.

use std::io;
use std::process::exit;
use std::thread;

use thruway_bench::StopFlag;
use thruway_net::TerminationSignals;

use super::EXIT_INTERRUPTED;
use super::groups::ProcessGroups;
use crate::config::Failure;

/// A flag that is set when the process is asked to end. `started` are ended when it is asked again.
pub(super) fn stop_flag(started: &ProcessGroups) -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    watch(stop.clone(), started.clone())
        .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))?;
    Ok(stop)
}

fn watch(stop: StopFlag, started: ProcessGroups) -> io::Result<()> {
    let mut signals = TerminationSignals::take_over()?;
    let wait = move || {
        signals.wait();
        stop.stop();
        signals.wait();
        let _ended = started.kill();
        exit(EXIT_INTERRUPTED.into());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}
