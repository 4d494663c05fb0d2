//! Runs servers as child processes. The load generator writes to the standard input of the child, reads its
//! standard output, and ends the child after the load.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::pin::Pin;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::task::{Context, Poll};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thruway_net::{Clock, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};

/// A child process that serves requests on its standard input and output, in a separate process group.
/// Dropping this value closes the input of the process. If the process does not end within one second, it
/// gets SIGTERM. After another second, the process group is killed.
#[derive(Debug)]
pub struct ChildServer {
    child: Child,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
}

/// Reason why a child process cannot be started.
#[derive(Debug)]
pub enum ChildError {
    /// The command is empty.
    CommandMissing,
    /// The system could not start the process.
    NotStarted(io::Error),
}

impl ChildServer {
    /// Starts a command with its arguments. The child inherits the standard error of this process.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub fn start(command: &[String]) -> Result<Self, ChildError> {
        let [program, args @ ..] = command else { return Err(ChildError::CommandMissing) };
        let mut command = Command::new(program);
        command.args(args).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(ChildError::NotStarted)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, input: input.map(OwnedFd::from), output: output.map(OwnedFd::from) })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns copies of two file descriptors: one writes to the child, and one reads from the child. The
    /// input of the child stays open until this value is dropped.
    pub(crate) fn descriptors(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        match (&self.input, &self.output) {
            (Some(input), Some(output)) => Ok((input.try_clone()?, output.try_clone()?)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns the exit status, if the process has ended.
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
        // Ignores the error, because an error means that the group has already ended.
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
            Self::CommandMissing => f.write_str("the command is empty"),
            Self::NotStarted(error) => write!(f, "it cannot be started: {error}"),
        }
    }
}

impl std::error::Error for ChildError {}

/// Standard input and output of a child process.
#[derive(Debug)]
pub(crate) struct Pipes {
    input: Option<Sender>,
    output: Receiver,
}

impl Pipes {
    /// Registers the pipes with the event loop of this thread.
    pub(crate) fn watch(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        // Only this process's ends of the pipes become non-blocking, not the ends of the child.
        let input = Sender::from_file(File::from(input))?;
        Ok(Self { input: Some(input), output: Receiver::from_file(File::from(output))? })
    }
}

impl Transport for Pipes {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        Pin::new(&mut self.output).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write_vectored(cx, slices),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}

const GRACE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);
