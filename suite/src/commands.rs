//! Runs a command many times, and measures the cost of a complete run.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use thruway_net::Clock;

use crate::case::Role;
use crate::figures::{Figures, Metric};
use crate::found::Found;
use crate::process::Runner;
use crate::server::Server;

/// Runs a command `runs` times. The command may call `server`.
pub(crate) fn repeat(
    found: &Found,
    server: &Server,
    runs: u64,
    runner: Runner<'_>,
) -> anyhow::Result<Figures> {
    // The first run loads the files of the program into memory.
    run_once(found, server, runner)?;
    let (clock, mut cpu) = (Clock::system(), Duration::ZERO);
    let start = clock.now_exact();
    for _ in 0..runs {
        cpu += run_once(found, server, runner)?;
    }
    let seconds = clock.now_exact().saturating_sub(start).as_secs_f64();
    Ok(Figures::counted(runs, seconds).with_cpu(Metric::ProgramCpu, Some(cpu)))
}

/// Runs the command to its end, and returns its CPU time.
fn run_once(found: &Found, server: &Server, runner: Runner<'_>) -> anyhow::Result<Duration> {
    let setup = found.peer.setup(Role::Command).context("the peer does not support this role")?;
    let backend = server.address.to_string();
    let mut command = Command::new(&found.program);
    command.args(setup.arguments.iter().map(|argument| argument.replace("{backend}", &backend)));
    let ended = runner.end_of(&mut command, WAIT_LIMIT)?;
    ensure!(ended.status.success(), "the command ended with {}", ended.status);
    ensure!(!ended.printed.is_empty(), "the command printed nothing");
    Ok(ended.cpu)
}

const WAIT_LIMIT: Duration = Duration::from_secs(30);
