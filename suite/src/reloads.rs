//! Repeated reloads of a server under load.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Reloads the server as long as this exists.
pub(crate) struct Reloads {
    over: Sender<()>,
    thread: JoinHandle<u32>,
}

impl Reloads {
    /// Sends SIGHUP to process `server` every 200 ms, after a change of the upstream at the end of its
    /// `config`: the server does not replace an unchanged upstream.
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
                // Other code reports a server that has ended.
                reloads += u32::from(pid.is_some_and(|pid| kill_process(pid, Signal::HUP).is_ok()));
            }
            reloads
        });
        Self { over, thread }
    }

    /// Stops, and returns the number of reloads.
    pub(crate) fn end(self) -> u32 {
        drop(self.over);
        self.thread.join().unwrap_or(0)
    }
}

/// Replaces a file at once, so that no reader sees a part of it.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    fs::write(&next, content)?;
    fs::rename(next, path)
}

/// Of one server, which gets all requests in either way.
const OTHER_BALANCE: &str = "balance = \"least_connections\"\n";

const INTERVAL: Duration = Duration::from_millis(200);
