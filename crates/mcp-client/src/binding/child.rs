//! Child processes. The client stops a child as the specification requires: it closes the input, then sends
//! SIGTERM, then kills the child.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thruway_mcp::stdio::{Line, Lines};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::error::McpClientError;
use super::transport::{Child, OnStderr, Origin, StreamIo};

impl Origin {
    /// Starts `command`. Its standard error goes to `on_stderr`, if set, or to the target that the command
    /// names.
    pub(crate) fn start(
        mut command: Command,
        on_stderr: Option<OnStderr>,
        exit_wait: Duration,
    ) -> io::Result<(Self, StreamIo)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if on_stderr.is_some() {
            command.stderr(Stdio::piped());
        }
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        let mut origin = Self { command, on_stderr, exit_wait, started: Instant::now(), restarts: 0 };
        let ends = origin.spawn()?;
        Ok((origin, ends))
    }

    /// Restarts a child process that has died: at once the first time, then after growing pauses. Stops after
    /// [`RESTARTS_MAX`] restarts.
    pub(super) async fn start_again(&mut self) -> Result<StreamIo, McpClientError> {
        if self.started.elapsed() > LIFE_LONG {
            self.restarts = 0;
        }
        if self.restarts >= RESTARTS_MAX {
            return Err(McpClientError::TooManyRestarts);
        }
        let pause = if self.restarts == 0 { Duration::ZERO } else { PAUSE * (1 << self.restarts) };
        self.restarts += 1;
        sleep(pause).await;
        self.started = Instant::now();
        self.spawn().map_err(|error| McpClientError::Start(error.kind()))
    }

    fn spawn(&mut self) -> io::Result<StreamIo> {
        let mut process = self.command.spawn()?;
        if let (Some(stderr), Some(on_stderr)) = (process.stderr.take(), &self.on_stderr) {
            tokio::spawn(tell_lines(stderr, on_stderr.clone()));
        }
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = process.stdout.take().ok_or_else(closed)?.into_owned_fd()?;
        let output = process.stdin.take().ok_or_else(closed)?.into_owned_fd()?;
        Ok(StreamIo {
            input: Box::new(pipe::Receiver::from_owned_fd(input)?),
            output: Box::new(pipe::Sender::from_owned_fd(output)?),
            child: Some(Child { process }),
            exit_wait: self.exit_wait,
        })
    }
}

impl Child {
    /// Waits until the child has exited. The input is closed when `writing` ends. From then on, the child has
    /// `exit_wait` before SIGTERM, and again before it is killed.
    pub(super) async fn wait_for_exit(mut self, writing: JoinHandle<()>, exit_wait: Duration) {
        tokio::select! {
            _ = self.process.wait() => return,
            _ = writing => {}
        }
        if timeout(exit_wait, self.process.wait()).await.is_ok() {
            return;
        }
        if let Some(pid) = self.process.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            // The process id is not reused before `wait` has returned.
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(exit_wait, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}

/// Reads the standard error to its end, even if it contains no lines, so that the child never blocks on it.
async fn tell_lines(mut stderr: ChildStderr, on_stderr: OnStderr) {
    let mut lines = Lines::with_bytes_max(STDERR_LINE_BYTES_MAX);
    while stderr.read_buf(lines.room()).await.is_ok_and(|read| read > 0) {
        while let Some(line) = lines.next_line() {
            match line {
                Line::Whole(line) => on_stderr(&String::from_utf8_lossy(line)),
                Line::TooLong => on_stderr("(a line that is too long)"),
                Line::SkippedMessage(_) => {}
            }
        }
    }
    if let Some(Line::Whole(line)) = lines.rest() {
        on_stderr(&String::from_utf8_lossy(line));
    }
}

/// Maximum length of a line of the standard error, in bytes. Longer lines are not passed on.
const STDERR_LINE_BYTES_MAX: usize = 64 << 10;

/// Lifetime after which the restart counter is reset.
const LIFE_LONG: Duration = Duration::from_mins(1);

/// Maximum number of restarts in a row of a child that dies early.
const RESTARTS_MAX: u32 = 5;

/// Base of the pause before a restart. The second restart waits twice as long, and each later one twice as
/// long as the previous one.
const PAUSE: Duration = Duration::from_millis(50);
