//! Child processes: each wait has a time limit, and no child outlives its owner.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::stop::Stop;

/// Time for a child to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A running child process. Dropping this value ends the process and its descendants.
pub(super) struct Running {
    child: Child,
}

impl Running {
    /// Starts a command with its output in the file `output`.
    pub(super) fn start(mut command: Command, output: &Path) -> anyhow::Result<Self> {
        let file = File::create(output).with_context(|| format!("cannot create `{}`", output.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child })
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process ends.
    pub(super) fn wait(&mut self, limit: Duration, stop: &Stop) -> anyhow::Result<ExitStatus> {
        stop.wait("a child process to end", limit, || self.ended())
    }

    /// Sends SIGTERM to this process, but not to its descendants.
    pub(super) fn terminate(&self) {
        let _ended = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Sends a signal to the process group. Ignores an error, because the group may have ended already.
    fn signal_group(&self, signal: Signal) {
        let _ended = kill_process_group(Pid::from_child(&self.child), signal);
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    /// Sends SIGTERM to the process group of the child, waits, and then kills the remaining processes.
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        self.signal_group(Signal::TERM);
        for _ in 0..GRACE.as_millis() {
            if !self.is_running() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // A descendant may outlive the child.
        self.signal_group(Signal::KILL);
        // The status of a killed child has no meaning. The wait removes the child from the process table.
        let _status = self.child.wait();
    }
}

/// Sends SIGHUP to the process `id`, which reloads its config.
pub(super) fn send_sighup(id: u32) {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    // The process may have ended already.
    let _ended = pid.map(|pid| kill_process(pid, Signal::HUP));
}

/// Runs a command and returns its output.
///
/// # Errors
/// The command cannot be started, fails, or does not end within `limit`. The error contains `what` instead of
/// the command line, because reports must not contain paths of this machine.
pub(super) fn output_of(
    what: &str,
    command: Command,
    limit: Duration,
    stop: &Stop,
) -> anyhow::Result<String> {
    let (status, printed) = run(command, limit, stop)?;
    if !status.success() {
        bail!("`{what}` failed with {status}\n{}", tail(&printed));
    }
    Ok(printed)
}

/// Like [`output_of`], but accepts any exit status.
pub(super) fn any_output_of(command: Command, limit: Duration, stop: &Stop) -> anyhow::Result<String> {
    Ok(run(command, limit, stop)?.1)
}

fn run(command: Command, limit: Duration, stop: &Stop) -> anyhow::Result<(ExitStatus, String)> {
    let file = tempfile::NamedTempFile::new()?;
    let status = Running::start(command, file.path())?.wait(limit, stop)?;
    Ok((status, text_of(file.path())?))
}

/// Reads a log, and replaces bytes that are not UTF-8.
pub(super) fn text_of(log: &Path) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(log)?).into_owned())
}

/// Returns the last lines of the output of a program.
pub(super) fn tail(printed: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<_> = printed.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_end_with_the_child() {
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]);
        let running = Running::start(shell, output.path()).unwrap();
        let printed = || fs::read_to_string(output.path()).unwrap();
        let stop = Stop::new(Duration::from_mins(1)).unwrap();
        let is_there = || Ok(printed().ends_with('\n').then_some(()));
        stop.wait("the ID of the descendant", Duration::from_secs(10), is_there).unwrap();
        drop(running);
        // The kernel ends a process some time after the signal, and the parent reaps it later.
        let is_gone = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", printed().trim())).unwrap_or_default();
            Ok((stat.is_empty() || stat.contains(") Z ")).then_some(()))
        };
        stop.wait("the end of the descendant", Duration::from_secs(10), is_gone).unwrap();
    }
}
