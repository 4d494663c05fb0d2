//! Access logs: one line for each request, written off its path.
//!
//! A worker puts a line into a buffer of its own, which costs it a copy; a thread for all workers writes the
//! buffers out a few times a second. If what it writes to is slower than the requests come, or blocked, lines
//! are dropped and counted: nothing waits for a log.

mod format;
mod masking;
mod sink;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use thruway_net::{LogWriter, LogWriterConfig};

use crate::record::{Recorder, TakeRecord, TakeStreamRecord};
use format::Timestamps;

pub use format::{AccessLogFormat, AccessLogLines};
pub use sink::{AccessLogTarget, OpenTarget};

/// An access log; give it to [`Server::record`](crate::Server::record).
#[derive(Clone)]
pub struct AccessLog {
    writer: Arc<LogWriter<AccessLogLines>>,
}

impl AccessLog {
    /// Starts the thread that writes to `target`.
    ///
    /// # Errors
    /// The file cannot be opened, or the system refuses a thread.
    pub fn start(lines: impl Into<AccessLogLines>, target: &AccessLogTarget) -> io::Result<Self> {
        Ok(Self { writer: Arc::new(LogWriter::start(WRITER, lines.into(), target.open()?)?) })
    }

    /// Writes `lines` to `target` from now on, also for open connections. Lines that are not written yet go
    /// to the previous target. Does not wait until that is done; only parameters are masked from now on.
    pub fn replace(&self, lines: impl Into<AccessLogLines>, target: OpenTarget) {
        let lines = lines.into();
        let masked = lines.masked_parameters.clone();
        // The first request with a key under a new name may come before the thread has replaced the rest.
        self.writer.replace(lines, target, |lines| lines.masked_parameters.clone_from(&masked));
    }

    /// Begins a new file if the present one was moved away. Does not wait until that is done.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    /// Writes what is left and ends the thread. A target that blocks is given a second.
    ///
    /// Returns how many lines were dropped since the start.
    pub fn finish(&self) -> u64 {
        self.writer.finish()
    }
}

impl Recorder for AccessLog {
    fn start(&self) -> TakeRecord {
        let lines = self.writer.add_buffer();
        let mut timestamps = Timestamps::default();
        Box::new(move |record| lines.append(|buffer, style| style.write(buffer, record, &mut timestamps)))
    }

    fn start_streams(&self) -> TakeStreamRecord {
        let lines = self.writer.add_buffer();
        let mut timestamps = Timestamps::default();
        Box::new(move |record| {
            lines.append(|buffer, style| style.format.write_stream(buffer, record, &mut timestamps));
        })
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").finish_non_exhaustive()
    }
}

const WRITER: LogWriterConfig = LogWriterConfig {
    thread_name: "access-log",
    // For each worker, about a hundred thousand lines.
    buffer_bytes_max: 16 << 20,
    kept_bytes_max: 1 << 20,
    write_every: Some(Duration::from_millis(100)),
};
