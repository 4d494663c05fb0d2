//! Child processes. The client stops a child process as the specification requires: it closes the input of
//! the process, then sends SIGTERM, and finally kills the process. If the process leads a process group, the
//! client ends the whole group.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process_group};
use thruway_mcp::stdio::{Line, Lines};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::error::McpClientError;
use super::transport::{Child, OnStderr, Origin, StreamIo};

impl Origin {
    /// Starts the child process `command`. Its standard error goes to `on_stderr`. Without `on_stderr`, the
    /// `stderr` setting of `command` applies.
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

    /// Restarts a child process that has exited. The first restart is immediate, and further restarts
    /// follow after growing pauses. Fails after [`RESTARTS_MAX`] restarts in a row, unless the caller permits one more
    /// restart.
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

    /// Permits one more restart after [`RESTARTS_MAX`] restarts in a row.
    pub(super) fn permit_restart(&mut self) {
        self.restarts = self.restarts.min(RESTARTS_MAX - 1);
    }

    fn spawn(&mut self) -> io::Result<StreamIo> {
        let mut process = self.command.spawn()?;
        if let (Some(stderr), Some(on_stderr)) = (process.stderr.take(), &self.on_stderr) {
            tokio::spawn(report_lines(stderr, on_stderr.clone()));
        }
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = process.stdout.take().ok_or_else(closed)?.into_owned_fd()?;
        let output = process.stdin.take().ok_or_else(closed)?.into_owned_fd()?;
        Ok(StreamIo {
            input: Box::new(pipe::Receiver::from_owned_fd(input)?),
            output: Box::new(pipe::Sender::from_owned_fd(output)?),
            child: Some(Child::new(process)),
            exit_wait: self.exit_wait,
        })
    }
}

impl Child {
    fn new(process: tokio::process::Child) -> Self {
        let id = id_of(&process);
        let group = id.filter(|id| getpgid(Some(*id)) == Ok(*id));
        Self { process, group }
    }

    /// Waits until the child process has exited. The task `writing` closes the input of the process when this
    /// task ends. If the process is still running after the time `exit_wait`, the client sends SIGTERM. If
    /// the process is still running after the same time again, the client kills the process. Then ends the
    /// other processes of its group in the same way.
    pub(super) async fn wait_for_exit(mut self, writing: JoinHandle<()>, exit_wait: Duration) {
        let has_exited = tokio::select! {
            _ = self.process.wait() => true,
            _ = writing => timeout(exit_wait, self.process.wait()).await.is_ok(),
        };
        if !has_exited {
            self.terminate();
            if timeout(exit_wait, self.process.wait()).await.is_err() {
                let _ = self.process.kill().await;
            }
        }
        self.end_group(exit_wait).await;
    }

    /// Sends SIGTERM to the process, or to its group.
    fn terminate(&self) {
        // The operating system does not reuse the process id before `wait` has returned.
        let _ = match (self.group, id_of(&self.process)) {
            (Some(group), _) => kill_process_group(group, Signal::TERM),
            (None, Some(id)) => kill_process(id, Signal::TERM),
            (None, None) => Ok(()),
        };
    }

    /// Ends the processes of the group that run after the child process has exited.
    async fn end_group(&mut self, exit_wait: Duration) {
        let Some(group) = self.group else { return };
        // While a process of the group exists, the operating system does not reuse the id of the group. An id
        // without processes is not reused at once either, because the operating system assigns ids in order.
        let mut has_processes = kill_process_group(group, Signal::TERM).is_ok();
        let end = Instant::now() + exit_wait;
        while has_processes && Instant::now() < end {
            sleep(GROUP_PAUSE).await;
            has_processes = test_kill_process_group(group).is_ok();
        }
        if !has_processes {
            self.group = None;
        }
        // Otherwise, dropping this value kills the group.
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns the id of a process. `None` after the process has been awaited.
fn id_of(process: &tokio::process::Child) -> Option<Pid> {
    process.id().and_then(|id| Pid::from_raw(id.try_into().ok()?))
}

/// Passes the lines of the standard error to `on_stderr`. Reads to the end, even if the output contains no
/// line feeds, so that the child process never blocks while it writes.
async fn report_lines(mut stderr: ChildStderr, on_stderr: OnStderr) {
    let mut lines = Lines::with_bytes_max(STDERR_LINE_BYTES_MAX);
    while stderr.read_buf(lines.input_buffer()).await.is_ok_and(|read| read > 0) {
        while let Some(line) = lines.next_line() {
            match line {
                Line::Whole(line) => on_stderr(&String::from_utf8_lossy(line)),
                Line::TooLong => on_stderr("(omitted a line that is too long)"),
                Line::SkippedMessage(_) => {}
            }
        }
    }
    if let Some(Line::Whole(line)) = lines.rest() {
        on_stderr(&String::from_utf8_lossy(line));
    }
}

/// Maximum length of a line of the standard error, in bytes. The client omits longer lines.
const STDERR_LINE_BYTES_MAX: usize = 64 << 10;

/// Lifetime of a child process after which the client resets the restart counter.
const LIFE_LONG: Duration = Duration::from_mins(1);

/// Maximum number of restarts in a row. Counts the restarts of processes that exit within [`LIFE_LONG`].
const RESTARTS_MAX: u32 = 5;

/// Base of the pauses before restarts. The second restart waits for twice this time, and each later restart
/// waits twice as long as the restart before.
const PAUSE: Duration = Duration::from_millis(50);

/// Pause between two checks for processes of a group.
const GROUP_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
