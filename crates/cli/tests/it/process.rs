//! The binary as a child process that ends with its test.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use rustix::process::Signal;

/// A running `thruway` process. It is killed on drop.
pub(crate) struct Thruway {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

/// Exit code and unread output of a process that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Parses the standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stderr))
    }

    /// Returns the report of a load in which this number of requests was answered and none failed.
    pub(crate) fn answered(&self, requests: u64) -> Value {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        let report = self.json();
        assert_eq!(
            (&report["requests"]["answered"], &report["requests"]["failed"]),
            (&requests.into(), &0.into())
        );
        report
    }
}

/// The lines of a pipe. Unread lines stay in the channel.
pub(crate) struct Lines(Receiver<String>);

impl Thruway {
    /// Starts the program with these arguments in `directory`.
    pub(crate) fn start_in(directory: &Path, args: &[&str]) -> Self {
        let program = crate::PROGRAM;
        Self::spawn(Command::new(program).args(args).current_dir(directory).env_remove("THRUWAY_LOG"))
    }

    /// Starts the program with these arguments and environment variables in `directory`.
    pub(crate) fn start_with(directory: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let program = crate::PROGRAM;
        let variables = variables.iter().copied();
        Self::spawn(Command::new(program).args(args).current_dir(directory).envs(variables))
    }

    fn spawn(command: &mut Command) -> Self {
        restore_default_sigint_in_children();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Writes `config` into `directory` and starts `thruway serve` with it.
    pub(crate) fn serve(directory: &Path, config: &str) -> Self {
        std::fs::write(directory.join("thruway.toml"), config).unwrap();
        Self::start_in(directory, &["serve", "thruway.toml"])
    }

    /// Starts a server that responds to every path with `content`. Returns it with its address, in the form
    /// that upstreams use.
    pub(crate) fn answering(directory: &Path, content: &str) -> (Self, String) {
        let mut thruway = Self::serve(
            directory,
            &format!(
                "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
                 [[routes]]\npath = \"/\"\nrespond.body = \"{content}\"\n"
            ),
        );
        let authority = thruway.authority();
        (thruway, authority)
    }

    /// Replaces the config that [`serve`](Self::serve) has written, sends SIGHUP, and returns the first log
    /// line that contains `text`.
    pub(crate) fn reload(&mut self, directory: &Path, config: &str, text: &str) -> String {
        std::fs::write(directory.join("thruway.toml"), config).unwrap();
        self.signal(Signal::HUP);
        self.wait_for_log(text)
    }

    /// Starts the demo with these additional arguments.
    pub(crate) fn demo(args: &[&str]) -> Self {
        Self::demo_with_log_level("info", args)
    }

    /// Starts the demo with these additional arguments and this log level.
    pub(crate) fn demo_with_log_level(level: &str, args: &[&str]) -> Self {
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        Self::spawn(Command::new(crate::PROGRAM).args(serve).args(args).env("THRUWAY_LOG", level))
    }

    /// Returns the next address that the process prints.
    pub(crate) fn address(&mut self) -> String {
        self.address_after("listening on ")
    }

    /// Returns the next address without its scheme, in the form that upstreams use.
    pub(crate) fn authority(&mut self) -> String {
        self.address().strip_prefix("http://").unwrap().to_owned()
    }

    /// Returns the address of the admin listener, which the process prints after the others.
    pub(crate) fn admin_address(&mut self) -> String {
        self.address_after("admin listener on ")
    }

    /// Returns the next address of a TCP listener that the process prints.
    pub(crate) fn tcp_address(&mut self) -> String {
        self.address_after("listening on tcp://")
    }

    fn address_after(&mut self, prefix: &str) -> String {
        let line = self.stdout.next().unwrap_or_else(|| panic!("no address: {}", self.stderr.rest()));
        let address = line.trim_end().strip_prefix(prefix);
        address.unwrap_or_else(|| panic!("no address: {line}")).to_owned()
    }

    /// Waits until the process logs a line with `text`, and returns the line.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while let Some(line) = self.stderr.next() {
            if line.contains(text) {
                return line;
            }
            seen.push_str(&line);
        }
        panic!("`{text}` was not logged; the log: {seen}");
    }

    /// Waits until the process has a thread of this name.
    pub(crate) fn wait_for_thread(&self, name: &str) {
        let process = format!("/proc/{}", self.pid().as_raw_nonzero());
        let has_thread = || {
            let threads = std::fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
            let mut names =
                threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|found| found.trim() == name)
        };
        while !has_thread() {
            let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
            assert!(
                !stat.is_empty() && !stat.contains(") Z "),
                "the process has ended: {}",
                self.stderr.rest()
            );
            thread::yield_now();
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits until the process has ended.
    pub(crate) fn end(mut self) -> Ended {
        let (stdout, stderr) = (self.stdout.rest(), self.stderr.rest());
        // Both pipes are closed, so the process has ended or is about to end.
        Ended { code: self.child.wait().unwrap().code(), stdout, stderr }
    }

    /// Waits until the process has ended. Does not read its standard output.
    pub(crate) fn end_unread(mut self) -> Ended {
        let stderr = self.stderr.rest();
        Ended { code: self.child.wait().unwrap().code(), stdout: String::new(), stderr }
    }
}

impl Drop for Thruway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(0);
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            while pipe.read_line(&mut line).is_ok_and(|read| read > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// Returns the next line, or `None` at the end.
    pub(crate) fn next(&self) -> Option<String> {
        match self.0.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no output for {TIMEOUT:?}"),
        }
    }

    pub(crate) fn rest(&self) -> String {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Restores the default effect of SIGINT in the children of this process.
///
/// `nohup` and shells that start background jobs ignore SIGINT. A child inherits an ignored signal. A signal
/// that its parent handles has the default effect in the child (signal(7)), so this function installs a
/// handler.
fn restore_default_sigint_in_children() {
    static IS_DONE: Once = Once::new();
    IS_DONE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        // Install the handler only if SIGINT is ignored. Otherwise Ctrl-C must still end the test run.
        if ignored & (1 << (Signal::INT.as_raw() - 1)) != 0 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            let _entered = runtime.enter();
            // tokio never removes its handler.
            drop(signal(SignalKind::interrupt()).unwrap());
        }
    });
}

/// Limit for an event that a test waits for. Even a busy machine needs less, so only a failed test reaches
/// it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Log message of a successful reload.
pub(crate) const RELOADED: &str = "config reloaded";
