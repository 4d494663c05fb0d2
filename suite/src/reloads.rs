//! Repeated reloads of a server under load.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Reloads the config of a server until `end`.
pub(crate) struct Reloads {
    over: Sender<()>,
    thread: JoinHandle<u32>,
}

impl Reloads {
    /// Every 200 ms, changes the last upstream in `config` and sends SIGHUP to the process `server`. The
    /// change is necessary, because a reload keeps an unchanged upstream.
    pub(crate) fn begin(server: u32, config: PathBuf) -> Self {
        let (over, is_over) = channel();
        let pid = i32::try_from(server).ok().and_then(Pid::from_raw);
        let thread = thread::spawn(move || {
            let mut reloads = 0;
            let Ok(first) = fs::read_to_string(&config) else { return 0 };
            let configs = [format!("{first}{OTHER_BALANCE}"), first];
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if replace(&config, &configs[reloads as usize % 2]).is_err() {
                    return 0;
                }
                // Ignores the error: other code reports that the server has ended.
                reloads += u32::from(pid.is_some_and(|pid| kill_process(pid, Signal::HUP).is_ok()));
            }
            reloads
        });
        Self { over, thread }
    }

    /// Stops the reloads, and returns their number.
    pub(crate) fn end(self) -> u32 {
        drop(self.over);
        self.thread.join().unwrap_or(0)
    }
}

/// Replaces a file atomically, so that a reader never sees an incomplete file.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    fs::write(&next, content)?;
    fs::rename(next, path)
}

/// The line that changes the config. It has no effect on an upstream with one server.
const OTHER_BALANCE: &str = "balance = \"least_connections\"\n";

const INTERVAL: Duration = Duration::from_millis(200);
