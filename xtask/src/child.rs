//! Child processes: waited for with a limit, and ended by their id whatever happens.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal};

use super::process;
use super::stop::Stop;

/// How long a child may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Time for a server to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running child; dropping it ends it and its descendants.
pub(super) struct Running {
    child: Child,
}

impl Running {
    /// Starts a command whose output goes to the file `output`.
    ///
    /// # Errors
    /// When the file cannot be created or the command not be started.
    pub(super) fn start(mut command: Command, output: &Path) -> anyhow::Result<Self> {
        let file = File::create(output).with_context(|| format!("cannot create `{}`", output.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child })
    }

    /// Starts a command, and waits until it accepts connections at `address`.
    ///
    /// # Errors
    /// The command cannot be started, or ends.
    pub(super) fn start_listening(
        command: Command,
        address: SocketAddr,
        log: &Path,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let mut running = Self::start(command, log)?;
        stop.wait("a server to listen", START_LIMIT, || {
            if let Some(status) = running.ended()? {
                bail!("it ended with {status}\n{}", tail(&fs::read_to_string(log)?));
            }
            Ok(TcpStream::connect(address).ok())
        })?;
        Ok(running)
    }

    /// Its process id; `setpriv` and `taskset` have become the program by the time it answers.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its status if it has ended.
    ///
    /// # Errors
    /// When the operating system cannot say.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it is not over within `limit`, or it is time to end; it is killed then.
    pub(super) fn wait(&mut self, limit: Duration, stop: &Stop) -> anyhow::Result<ExitStatus> {
        stop.wait("a child process to end", limit, || self.ended())
    }

    /// Asks it, and nobody else, to end.
    pub(super) fn ask_to_end(&self) {
        signal(self.id(), Signal::TERM);
    }

    /// Asks it and its descendants to end, and kills those that do not.
    fn end(&mut self) {
        if !self.is_running() {
            return;
        }
        let family = process::family(self.id());
        for &id in &family {
            signal(id, Signal::TERM);
        }
        for _ in 0..GRACE.as_millis() {
            if !self.is_running() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // Also after it has ended by itself: a descendant may have outlived it.
        for &id in &family {
            signal(id, Signal::KILL);
        }
        // The status of a killed child says nothing; waiting is what removes it from the process table.
        let _status = self.child.wait();
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Tells the process `id` that its config has changed.
pub(super) fn hang_up(id: u32) {
    signal(id, Signal::HUP);
}

fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended by itself in the meantime, which is all that was wanted.
        let _ended = rustix::process::kill_process(pid, signal);
    }
}

/// Runs a command to its end and gives back what it printed.
///
/// # Errors
/// When it cannot be started, fails, or is not over within `limit`; said of `what`, as the command line
/// itself names places of this machine that have no business in a report.
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

/// As [`output_of`], but a command that fails is as good as any.
///
/// # Errors
/// When it cannot be started, or is not over within `limit`.
pub(super) fn any_output_of(command: Command, limit: Duration, stop: &Stop) -> anyhow::Result<String> {
    Ok(run(command, limit, stop)?.1)
}

fn run(command: Command, limit: Duration, stop: &Stop) -> anyhow::Result<(ExitStatus, String)> {
    let file = tempfile::NamedTempFile::new()?;
    let status = Running::start(command, file.path())?.wait(limit, stop)?;
    // Some of what programs print is not UTF-8, and none of that is of interest here.
    Ok((status, String::from_utf8_lossy(&fs::read(file.path())?).into_owned()))
}

/// The last lines of what a program printed.
pub(super) fn tail(printed: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<_> = printed.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
