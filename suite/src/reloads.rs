//! A server that is told again and again, while it is loaded, that its config has changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Tells it for as long as this exists.
pub(crate) struct Reloads {
    over: Sender<()>,
    thread: JoinHandle<u32>,
}

impl Reloads {
    /// Sends SIGHUP to process `server` every 200 ms, when the upstream at the end of its `config` is another
    /// than before: what did not change would not be replaced.
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
                // One that has ended by itself is told as dead by others.
                reloads += u32::from(pid.is_some_and(|pid| kill_process(pid, Signal::HUP).is_ok()));
            }
            reloads
        });
        Self { over, thread }
    }

    /// Stops; how often it was told.
    pub(crate) fn end(self) -> u32 {
        drop(self.over);
        self.thread.join().unwrap_or(0)
    }
}

/// Has `content` in the place of a file at once: whoever reads it never sees a half.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    fs::write(&next, content)?;
    fs::rename(next, path)
}

/// Of one server, which gets all requests in either way.
const OTHER_BALANCE: &str = "balance = \"least_connections\"\n";

const INTERVAL: Duration = Duration::from_millis(200);
