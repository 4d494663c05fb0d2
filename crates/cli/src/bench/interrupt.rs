//! Ctrl-C: the first ends the load with what was measured, the second ends the process.

use std::io;
use std::process::exit;
use std::thread;

use thruway_bench::StopFlag;
use thruway_net::TerminationSignals;

use super::EXIT_INTERRUPTED;
use crate::config::Failure;

/// A flag that is set when the process is asked to end.
pub(super) fn stop_flag() -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    watch(stop.clone()).map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))?;
    Ok(stop)
}

fn watch(stop: StopFlag) -> io::Result<()> {
    let mut signals = TerminationSignals::take_over()?;
    let wait = move || {
        signals.wait();
        stop.stop();
        signals.wait();
        exit(EXIT_INTERRUPTED.into());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}
