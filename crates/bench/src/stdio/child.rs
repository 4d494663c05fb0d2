//! A child from its start to its end.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thruway_net::Clock;

/// A server that reads its standard input and writes its standard output, in a process group of its own. It is ended when
/// this is dropped: asked by the end of its input, then by SIGTERM, then killed.
#[derive(Debug)]
pub struct ChildServer {
    child: Child,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
}

/// Why a child cannot be loaded.
#[derive(Debug)]
pub enum ChildError {
    /// There is no command.
    CommandMissing,
    /// The system does not start it.
    NotStarted(io::Error),
}

impl ChildServer {
    /// Starts a command with its arguments. What it says on its standard error is for whoever reads ours.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &[String]) -> Result<Self, ChildError> {
        let [program, args @ ..] = command else { return Err(ChildError::CommandMissing) };
        let mut command = Command::new(program);
        command.args(args).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(ChildError::NotStarted)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, input: input.map(OwnedFd::from), output: output.map(OwnedFd::from) })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The other ends of its input and its output. Its input stays open for as long as it is not ended.
    pub(crate) fn descriptors(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        match (&self.input, &self.output) {
            (Some(input), Some(output)) => Ok((input.try_clone()?, output.try_clone()?)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// How it has ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn has_ended_within(&mut self, time: Duration) -> bool {
        let end = Clock::system().now() + time;
        while self.status().is_none() {
            if Clock::system().now() >= end {
                return false;
            }
            sleep(PAUSE);
        }
        true
    }

    fn signal(&self, signal: Signal) {
        // A group that has ended needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        self.input = None;
        self.output = None;
        if self.has_ended_within(GRACE) {
            return;
        }
        self.signal(Signal::TERM);
        if !self.has_ended_within(GRACE) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandMissing => f.write_str("there is no command"),
            Self::NotStarted(error) => write!(f, "it cannot be started: {error}"),
        }
    }
}

impl std::error::Error for ChildError {}

const GRACE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);
