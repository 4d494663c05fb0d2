//! What a command costs from its start to its end, again and again.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::metric::{Metric, Sample};
use super::prepare::Prepared;
use super::server::{CLIENT_CORE, Server};
use super::stdio::Pinned;
use crate::process;
use crate::stop::{Stop, now};

/// The name of the server that commands talk to in the table of peers.
pub(super) const BESIDE: &str = "thruway";

/// Runs a command so many times, beside a server that it may talk to.
///
/// # Errors
/// When it fails, or prints nothing.
pub(super) fn run(
    prepared: &Prepared,
    server: Option<&Prepared>,
    runs: u32,
    stop: &Stop,
) -> anyhow::Result<Sample> {
    let server = Server::start(server.context("there is no server")?, stop)?;
    let _pinned = Pinned::to(CLIENT_CORE)?;
    let backend = server.address().to_string();
    // As it was loaded once, all that it is made of is in memory.
    run_once(prepared, &backend)?;
    let (start, before) = (now(), process::cpu_time_of_ended_children()?);
    for _ in 0..runs {
        stop.check()?;
        run_once(prepared, &backend)?;
    }
    let spent = process::cpu_time_of_ended_children()?.saturating_sub(before);
    let per_run = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(runs);
    Ok(Sample::from([(Metric::CpuPerRun, per_run(spent)), (Metric::TimePerRun, per_run(start.elapsed()))]))
}

/// Not as other programs are run: those that pin it would be part of what it costs.
fn run_once(prepared: &Prepared, backend: &str) -> anyhow::Result<()> {
    let mut command = Command::new(&prepared.program);
    command.args(prepared.peer.arguments.iter().map(|argument| argument.replace("{backend}", backend)));
    let output = command.output().context("it cannot be started")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ended with {}\n{printed}", output.status);
    ensure!(!output.stdout.is_empty(), "it printed nothing\n{printed}");
    Ok(())
}
