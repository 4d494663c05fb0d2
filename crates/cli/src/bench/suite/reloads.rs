//! A server that is told again and again, while it is loaded, that its config has changed.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Tells it for as long as this exists.
pub(super) struct Reloads {
    over: Sender<()>,
    thread: JoinHandle<u32>,
}

impl Reloads {
    /// Sends SIGHUP to process `server` every 200 ms.
    pub(super) fn begin(server: u32) -> Self {
        let (over, is_over) = channel();
        let pid = i32::try_from(server).ok().and_then(Pid::from_raw);
        let thread = thread::spawn(move || {
            let mut reloads = 0;
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // One that has ended by itself is told as dead by others.
                reloads += u32::from(pid.is_some_and(|pid| kill_process(pid, Signal::HUP).is_ok()));
            }
            reloads
        });
        Self { over, thread }
    }

    /// Stops; how often it was told.
    pub(super) fn end(self) -> u32 {
        drop(self.over);
        self.thread.join().unwrap_or(0)
    }
}

const INTERVAL: Duration = Duration::from_millis(200);
