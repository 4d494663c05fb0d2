//! Servers that are started to be compared, and ended with the comparison.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thruway_bench::{Load, StopFlag};
use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use super::load::reachable;
use crate::config::Failure;

/// A server in a process group of its own. It is ended when this is dropped.
pub(super) struct Started {
    child: Child,
    command: String,
}

impl Started {
    /// Starts `command` with the shell.
    pub(super) fn start(command: &str) -> Result<Self, Failure> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).process_group(0);
        // What it prints must not be taken for a report.
        let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| Failure::new(format!("`{command}` cannot be started: {error}")))?;
        Ok(Self { child, command: command.to_owned() })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens where `load` goes to, and returns which of the addresses that is.
    pub(super) fn wait_until_ready(
        &mut self,
        load: &Load,
        stop: &StopFlag,
    ) -> Result<Vec<UpstreamAddr>, Failure> {
        let end = Clock::system().now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().ok().flatten() {
                return Err(Failure::new(format!("`{}` has ended: {status}", self.command)));
            }
            match reachable(&load.addresses) {
                Ok(addresses) => return Ok(addresses),
                Err(_) if !stop.is_set() && Clock::system().now() < end => sleep(PAUSE),
                Err(_) => return Err(self.not_ready(load)),
            }
        }
    }

    fn not_ready(&self, load: &Load) -> Failure {
        let address = &load.addresses[0];
        Failure::new(format!("`{}` does not listen on {address}", self.command))
            .with_hint("the command must stay in the foreground, and listen where the URL before it says")
    }

    fn signal(&self, signal: Signal) {
        // A group that has ended needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    fn has_ended_within(&mut self, time: Duration) -> io::Result<bool> {
        let end = Clock::system().now() + time;
        while self.child.try_wait()?.is_none() {
            if Clock::system().now() >= end {
                return Ok(false);
            }
            sleep(PAUSE);
        }
        Ok(true)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        if !self.has_ended_within(GRACE).unwrap_or(false) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
