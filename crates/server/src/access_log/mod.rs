//! Access logs: one line for each request, written off its path.
//!
//! A worker puts a line into a buffer of its own, which costs it a copy; a thread for all workers writes the buffers
//! out a few times a second. If what it writes to is slower than the requests come, or blocked, lines are dropped and
//! counted: nothing waits for a log.

mod format;
mod masking;
mod sink;
mod writer;

use std::sync::Arc;
use std::{fmt, io};

use crate::record::TakeStreamRecord;
use crate::record::{Recorder, TakeRecord};
use format::Timestamps;
use writer::Writer;

pub use format::{AccessLogFormat, AccessLogLines};
pub use sink::{AccessLogTarget, OpenTarget};

/// An access log; give it to [`Server::record`](crate::Server::record).
#[derive(Clone)]
pub struct AccessLog {
    writer: Arc<Writer>,
}

impl AccessLog {
    /// Starts the thread that writes to `target`.
    ///
    /// # Errors
    /// The file cannot be opened, or the system refuses a thread.
    pub fn start(lines: impl Into<AccessLogLines>, target: &AccessLogTarget) -> io::Result<Self> {
        Ok(Self { writer: Arc::new(Writer::start(lines.into(), target.open()?)?) })
    }

    /// Writes `lines` to `target` from now on, also for open connections. Lines that are not written yet go
    /// to the previous target. Does not wait until that is done; only parameters are masked from now on.
    pub fn replace(&self, lines: impl Into<AccessLogLines>, target: OpenTarget) {
        self.writer.replace(lines.into(), target);
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
        let lines = self.writer.add_worker();
        let mut timestamps = Timestamps::default();
        Box::new(move |record| lines.append(|buffer, style| style.write(buffer, record, &mut timestamps)))
    }

    fn start_streams(&self) -> TakeStreamRecord {
        let lines = self.writer.add_worker();
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
