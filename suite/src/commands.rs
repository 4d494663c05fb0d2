//! The cost of a command from its start to its end, again and again.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use thruway_bench::cpu_of_ended;
use thruway_net::Clock;

use crate::case::Role;
use crate::figures::{Figures, cpu_each};
use crate::found::Found;
use crate::server::{Server, ServerResources};

/// Runs a command `runs` times, beside a server that it may call.
pub(crate) fn repeat(
    found: &Found,
    server: &Server,
    runs: u64,
    ground: ServerResources<'_>,
) -> Result<Figures, String> {
    // The first run loads the files of the program into memory.
    run_once(found, server)?;
    let (clock, mut cpu) = (Clock::system(), Duration::ZERO);
    let start = clock.now_exact();
    for _ in 0..runs {
        if ground.stop.is_set() {
            return Err("interrupted".to_owned());
        }
        cpu += run_once(found, server)?;
    }
    let seconds = clock.now_exact().saturating_sub(start).as_secs_f64();
    Ok(Figures { program_cpu: Some(cpu_each(cpu, runs)), ..Figures::counted(runs, seconds) })
}

/// Runs the command to its end, and returns its CPU time.
fn run_once(found: &Found, server: &Server) -> Result<Duration, String> {
    let setup = found.peer.setup(Role::Command).ok_or("it cannot be that")?;
    let output = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let mut command = Command::new(&found.program);
    let backend = server.address.to_string();
    command.args(setup.arguments.iter().map(|argument| argument.replace("{backend}", &backend)));
    let printed = output.reopen().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(printed).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // The kernel forgets the figures of a process after the wait.
    let ended = waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    let cpu = ended.ok().and_then(|_| cpu_of_ended(child.id()));
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    match output.as_file().metadata() {
        Ok(metadata) if metadata.len() > 0 => cpu.ok_or_else(|| "its CPU time is unknown".to_owned()),
        _ => Err("it printed nothing".to_owned()),
    }
}
