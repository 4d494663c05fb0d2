//! The processes that a development server starts itself: builds, and servers that listen on a URL.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::journal::{EntryKind, Journal};
use crate::message::CommandError;

/// A process and its children. They end when this value is dropped.
pub(super) struct ProcessGroup {
    child: Child,
    /// `true` after `wait` has returned the status. The kernel may then use the process id again.
    has_ended: bool,
}

impl ProcessGroup {
    /// Starts a program. The lines of its output become entries of the journal.
    pub(super) fn start(words: &[String], kind: EntryKind, journal: &Journal) -> Result<Self, CommandError> {
        let [program, args @ ..] = words else { return Err(CommandError::new("the command is empty")) };
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            CommandError::new(format!("cannot start `{}`: {error}", program.escape_debug()))
        })?;
        if let Some(output) = child.stdout.take() {
            tokio::spawn(record(output, kind, journal.clone()));
        }
        if let Some(output) = child.stderr.take() {
            tokio::spawn(record(output, kind, journal.clone()));
        }
        Ok(Self { child, has_ended: false })
    }

    /// Waits until the process has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.has_ended = true;
        Ok(status)
    }

    /// Sends SIGTERM to the group. If the process still runs after [`EXIT_WAIT`], kills the group.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::TERM);
        // After the time limit, dropping this value kills the group.
        let _ = timeout(EXIT_WAIT, self.wait()).await;
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(id) = id.filter(|_| !self.has_ended) {
            // The group may have ended by itself.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
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

/// Time that a process gets to end after SIGTERM.
const EXIT_WAIT: Duration = Duration::from_secs(2);

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

    /// A shell starts the server as its own child, so the end of the shell alone would leave the server.
    #[tokio::test]
    async fn stop_ends_the_children_of_the_process() {
        let journal = Journal::new();
        let script = words("sh -c").into_iter().chain(["sleep 600 & echo $!; wait".to_owned()]);
        let process = ProcessGroup::start(&script.collect::<Vec<_>>(), EntryKind::Output, &journal).unwrap();
        let (mut entries, mut later) = journal.follow();
        while entries.is_empty() {
            entries.push(later.recv().await.unwrap());
        }
        let grandchild = format!("/proc/{}/stat", entries[0].text);
        process.stop().await;
        let runs = || std::fs::read_to_string(&grandchild).is_ok_and(|stat| !stat.contains(") Z "));
        while runs() {
            tokio::task::yield_now().await;
        }
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
