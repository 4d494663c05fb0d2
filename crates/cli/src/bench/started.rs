//! Servers that are started to be compared, and ended with the comparison.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thruway_bench::StopFlag;
use thruway_client::UpstreamAddr;
use thruway_net::Clock;

use super::groups::ProcessGroups;
use super::load::reachable;
use crate::config::Failure;

/// A server in a process group of its own. It is ended when this is dropped.
pub(super) struct Started {
    child: Child,
    command: String,
    groups: ProcessGroups,
    grace: Duration,
}

impl Started {
    /// Starts `command` with the shell.
    pub(super) fn start(command: &str, groups: &ProcessGroups) -> Result<Self, Failure> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}"));
        Self::of(&mut shell, command, groups, GRACE)
    }

    /// Starts a command that messages call `name`. When it is asked to end, it has `grace` for it.
    pub(super) fn of(
        command: &mut Command,
        name: &str,
        groups: &ProcessGroups,
        grace: Duration,
    ) -> Result<Self, Failure> {
        // What it prints must not be taken for a report.
        let child = groups.start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        let child = child.map_err(|error| Failure::new(format!("`{name}` cannot be started: {error}")))?;
        Ok(Self { child, command: name.to_owned(), groups: groups.clone(), grace })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Nothing, unless it has ended.
    pub(super) fn still_runs(&mut self) -> Result<(), Failure> {
        match self.status() {
            Some(status) => Err(Failure::new(format!("`{}` has ended: {status}", self.command))),
            None => Ok(()),
        }
    }

    /// Waits until it listens at one of `addresses`, and returns which one that is.
    pub(super) fn wait_until_ready(
        &mut self,
        addresses: &[UpstreamAddr],
        stop: &StopFlag,
    ) -> Result<Vec<UpstreamAddr>, Failure> {
        let end = Clock::system().now() + PATIENCE;
        loop {
            self.still_runs()?;
            match reachable(addresses) {
                Ok(addresses) => return Ok(addresses),
                Err(_) if !stop.is_set() && Clock::system().now() < end => sleep(PAUSE),
                Err(_) => return Err(self.not_ready(&addresses[0])),
            }
        }
    }

    fn not_ready(&self, address: &UpstreamAddr) -> Failure {
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
        if !self.has_ended_within(self.grace).unwrap_or(false) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
        self.groups.forget(self.child.id());
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
