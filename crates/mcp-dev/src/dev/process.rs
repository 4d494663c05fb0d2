//! The processes that a development server starts itself: builds, and servers that listen on a URL.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, Interest};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::journal::{EntryKind, Journal};
use super::processes::is_group_running;
use crate::message::CommandError;

/// A process and its children, in a process group of their own. They end when this value is dropped.
pub(super) struct ProcessGroup {
    child: Child,
    /// Id of the process and of the group.
    id: Pid,
    /// Becomes readable when the process has ended.
    leader: AsyncFd<OwnedFd>,
    /// `true` after the process has been awaited. The kernel may then use the process id again.
    is_awaited: bool,
}

impl ProcessGroup {
    /// Starts a program. The lines of its output become entries of the journal.
    pub(super) fn start(words: &[String], kind: EntryKind, journal: &Journal) -> Result<Self, CommandError> {
        let [program, args @ ..] = words else { return Err(CommandError::new("the command is empty")) };
        let failed = |error: io::Error| {
            CommandError::new(format!("cannot start `{}`: {error}", program.escape_debug()))
        };
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        if let Some(output) = child.stdout.take() {
            tokio::spawn(record(output, kind, journal.clone()));
        }
        if let Some(output) = child.stderr.take() {
            tokio::spawn(record(output, kind, journal.clone()));
        }
        let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let id = id.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let leader = watch(id).map_err(failed)?;
        Ok(Self { child, id, leader, is_awaited: false })
    }

    /// Waits until the process has ended. Its children may still run.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.is_awaited = true;
        Ok(status)
    }

    /// Resolves when the process has ended. Keeps its process id, so that [`stop`](Self::stop) can end its
    /// children.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn leader_ended(&self) {
        // The guard does not clear the readiness: a process ends only once.
        let _ = self.leader.readable().await;
    }

    /// Sends SIGTERM to the group, and waits until all its processes have ended. Kills those that still run
    /// after [`EXIT_WAIT`]. Returns the status of the process that [`start`](Self::start) has started.
    pub(super) async fn stop(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        let ended = async {
            self.leader_ended().await;
            let mut pause = PAUSE_MIN;
            while is_group_running(self.id) {
                sleep(pause).await;
                pause = PAUSE_MAX.min(pause * 2);
            }
        };
        let _ = timeout(EXIT_WAIT, ended).await;
        // The kernel keeps the process id until `wait`, so no other group can have it.
        self.signal(Signal::KILL);
        self.wait().await
    }

    fn signal(&self, signal: Signal) {
        if !self.is_awaited {
            // The group may have ended by itself.
            let _ = kill_process_group(self.id, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Returns a file descriptor that becomes readable when the process `id` has ended.
#[expect(
    deprecated,
    reason = "the function is unsound only for types that can change their descriptor, which `OwnedFd` cannot. The replacement needs unsafe code"
)]
fn watch(id: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd_open(id, PidfdFlags::NONBLOCK)?, Interest::READABLE)
}

/// Adds each line of an output to the journal. Reads to the end, so that the process never blocks.
async fn record(mut output: impl AsyncRead + Unpin, kind: EntryKind, journal: Journal) {
    let (mut line, mut buffer) = (Vec::new(), vec![0; 8 << 10]);
    while let Ok(read @ 1..) = output.read(&mut buffer).await {
        for byte in &buffer[..read] {
            if *byte == b'\n' {
                note(&journal, kind, &line);
                line.clear();
            } else if line.len() < LINE_BYTES_MAX {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        note(&journal, kind, &line);
    }
}

/// Adds a line of output to the journal, and shows it in the terminal.
pub(super) fn note(journal: &Journal, kind: EntryKind, line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    let source = if kind == EntryKind::Build { "build" } else { "server" };
    tracing::info!("{source}: {}", crate::message::escaped_line(line.trim_end(), LINE_BYTES_MAX));
    journal.add(kind, line.trim_end());
}

/// Returns the command that builds the server of a `cargo run` command. `None` for other commands.
pub(super) fn build_of(words: &[String]) -> Option<Vec<String>> {
    let position = words.iter().position(|word| word == "run")?;
    // Before `run`, Cargo accepts only its own options, such as `+nightly`.
    if !words[0].ends_with("cargo") || !words[1..position].iter().all(|word| word.starts_with(['+', '-'])) {
        return None;
    }
    let words = words.iter().take_while(|word| *word != "--");
    Some(
        words
            .enumerate()
            .map(|(n, word)| if n == position { "build".to_owned() } else { word.clone() })
            .collect(),
    )
}

/// Time that the processes of a group get to end after SIGTERM.
const EXIT_WAIT: Duration = Duration::from_secs(2);

/// First pause between two checks of a group. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Longest pause between two checks of a group.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Maximum length of a line of output, in bytes. The rest of the line is dropped.
const LINE_BYTES_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn cargo_run_has_a_build_command() {
        for (command, build) in [
            ("cargo run", "cargo build"),
            ("cargo run --quiet --bin run -- run", "cargo build --quiet --bin run"),
            ("/opt/bin/cargo +nightly -v run -p a", "/opt/bin/cargo +nightly -v build -p a"),
        ] {
            assert_eq!(build_of(&words(command)), Some(words(build)), "{command}");
        }
        for command in ["npm run dev", "cargo", "cargo test run", "run", "python server.py"] {
            assert_eq!(build_of(&words(command)), None, "{command}");
        }
    }

    #[tokio::test]
    async fn output_and_status_of_a_process_are_known() {
        let journal = Journal::new();
        let script = words("sh -c").into_iter().chain(["echo one; printf two >&2; exit 3".to_owned()]);
        let mut process =
            ProcessGroup::start(&script.collect::<Vec<_>>(), EntryKind::Build, &journal).unwrap();
        assert_eq!(process.wait().await.unwrap().code(), Some(3));
        let (mut entries, mut later) = journal.follow();
        while entries.len() < 2 {
            entries.push(later.recv().await.unwrap());
        }
        let mut texts: Vec<_> = entries.iter().map(|entry| &*entry.text).collect();
        texts.sort_unstable();
        assert_eq!(texts, ["one", "two"]);
    }

    /// Starts a shell script. Returns its group, and the first line that it prints.
    async fn shell(script: &str) -> (ProcessGroup, String) {
        let journal = Journal::new();
        let (_, mut later) = journal.follow();
        let script = ["sh", "-c", script].map(str::to_owned);
        let process = ProcessGroup::start(&script, EntryKind::Output, &journal).unwrap();
        (process, later.recv().await.unwrap().text.clone())
    }

    fn is_running(id: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// A shell starts the server as its own child, so the end of the shell alone would leave the server.
    #[tokio::test]
    async fn stop_ends_the_children_of_the_process() {
        let (process, child) = shell("sleep 600 & echo $!; wait").await;
        process.stop().await.unwrap();
        assert!(!is_running(&child));
    }

    /// Regression test: `stop` returned when the shell had ended, and the server continued.
    #[tokio::test]
    async fn stop_waits_for_children_that_end_late() {
        let script = "trap 'sleep 0.3; exit' TERM; echo \\$\\$; while :; do sleep 0.02; done";
        let (process, child) = shell(&format!("trap 'exit 4' TERM; sh -c \"{script}\" & wait")).await;
        assert_eq!(process.stop().await.unwrap().code(), Some(4));
        assert!(!is_running(&child));
    }

    #[tokio::test]
    async fn stop_kills_children_that_ignore_sigterm() {
        let script = "trap '' TERM; echo \\$\\$; while :; do sleep 0.02; done";
        let (process, child) = shell(&format!("trap 'exit 4' TERM; sh -c \"{script}\" & wait")).await;
        assert_eq!(process.stop().await.unwrap().code(), Some(4));
        // The kernel ends a killed process at some time after the signal.
        while is_running(&child) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn stop_ends_the_children_of_a_process_that_has_ended() {
        let (process, child) = shell("sleep 600 & echo $!; exit 5").await;
        process.leader_ended().await;
        assert_eq!(process.stop().await.unwrap().code(), Some(5));
        assert!(!is_running(&child));
    }

    #[tokio::test]
    async fn missing_program_is_an_error() {
        let error =
            ProcessGroup::start(&words("/nowhere/a"), EntryKind::Output, &Journal::new()).err().unwrap();
        assert!(error.to_string().starts_with("cannot start `/nowhere/a`: "), "{error}");
        let error = ProcessGroup::start(&[], EntryKind::Output, &Journal::new()).err().unwrap();
        assert_eq!(error.to_string(), "the command is empty");
    }
}
