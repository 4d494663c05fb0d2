//! Access logs: one line per request, written to the log by a separate thread.
//!
//! Each worker has a buffer for its lines. One thread writes the buffers of all workers to the log about ten
//! times per second. If the target is too slow or blocked, the log drops lines and counts them. Requests
//! never wait for a log.

mod client_text;
mod conventions;
mod members;
mod format;
mod json;
mod masking;
mod remote;
mod sample;
mod sink;
mod socket;
mod streams;
mod syslog;
mod template;
mod timestamps;
mod variable;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use thruway_net::{DroppedLines, LogWriter, LogWriterConfig};

use crate::record::{Record, Recorder, StreamRecord, TakeRecord, TakeStreamRecord};
use sample::Random;
use syslog::Severity;
use timestamps::Timestamps;

pub use format::{AccessLogFormat, AccessLogLines};
pub use members::AccessLogMembers;
pub use sample::AccessLogSample;
pub use sink::{AccessLogTarget, OpenTarget};
pub use syslog::{Syslog, SyslogAddress, SyslogFacility};
pub use template::{AccessLogTemplate, InvalidTemplate};

/// An access log, for [`Server::record`](crate::Server::record).
///
/// ```no_run
/// use thruway_server::{AccessLog, AccessLogFormat, AccessLogTarget, Server};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log = AccessLog::start(AccessLogFormat::Json, &AccessLogTarget::File("access.log".into()))?;
/// Server::new(|| "hello\n").record(log.clone()).listen("127.0.0.1:8080")?.run()?;
/// log.finish(); // writes the last lines
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AccessLog {
    writer: Arc<LogWriter<LineSettings>>,
}

/// The settings that each buffer of lines needs.
#[derive(Clone)]
struct LineSettings {
    lines: AccessLogLines,
    /// `true` if each line begins with its [`Severity`], for a syslog server.
    has_severity: bool,
}

impl LineSettings {
    fn of(lines: AccessLogLines, target: &OpenTarget) -> Self {
        Self { lines, has_severity: target.is_syslog() }
    }

    fn write(&self, line: &mut Vec<u8>, record: &Record<'_>, timestamps: &mut Timestamps) {
        if self.has_severity {
            Severity::of_request(record).mark(line);
        }
        self.lines.write(line, record, timestamps);
    }

    fn write_stream(&self, line: &mut Vec<u8>, record: &StreamRecord<'_>, timestamps: &mut Timestamps) {
        if self.has_severity {
            Severity::of_stream(record).mark(line);
        }
        self.lines.write_stream(line, record, timestamps);
    }
}

impl AccessLog {
    /// Starts a thread that writes to `target`.
    ///
    /// # Errors
    /// The file cannot be opened, or the system cannot start a thread.
    pub fn start(lines: impl Into<AccessLogLines>, target: &AccessLogTarget) -> io::Result<Self> {
        let target = target.open()?;
        let settings = LineSettings::of(lines.into(), &target);
        Ok(Self { writer: Arc::new(LogWriter::start(WRITER, settings, target)?) })
    }

    /// Switches the log to `target` and to the settings `lines`, also for requests on open connections. Lines
    /// that are already buffered go to the previous target. The thread of the log switches shortly after this
    /// call has returned. Only the list of masked parameters changes at once.
    pub fn replace(&self, lines: impl Into<AccessLogLines>, target: OpenTarget) {
        let settings = LineSettings::of(lines.into(), &target);
        let masked = settings.lines.masked_parameters.clone();
        // A request with a newly masked parameter may arrive before the thread has switched to the new
        // settings.
        self.writer.replace(settings, target, |settings| {
            settings.lines.masked_parameters.clone_from(&masked);
        });
    }

    /// Creates a new log file if the current file was moved away. The thread of the log does this shortly
    /// after this call has returned.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    /// Writes the remaining lines and ends the thread. Waits at most one second for a blocked target.
    ///
    /// Returns the number of lines that the log has dropped since its start.
    pub fn finish(&self) -> u64 {
        self.writer.finish()
    }

    /// Returns the numbers of lines that the log has not written since its start.
    pub fn dropped(&self) -> DroppedLines {
        self.writer.dropped()
    }
}

impl Recorder for AccessLog {
    fn start(&self) -> TakeRecord {
        let lines = self.writer.add_buffer();
        let (mut timestamps, mut random) = (Timestamps::default(), Random::new());
        Box::new(move |record| {
            lines.append_if(
                |settings| {
                    let sample = settings.lines.sample;
                    record.is_logged && sample.is_none_or(|sample| sample.has_request(record, &mut random))
                },
                |buffer, settings| settings.write(buffer, record, &mut timestamps),
            );
        })
    }

    fn start_streams(&self) -> TakeStreamRecord {
        let lines = self.writer.add_buffer();
        let (mut timestamps, mut random) = (Timestamps::default(), Random::new());
        Box::new(move |record| {
            lines.append_if(
                |settings| settings.lines.sample.is_none_or(|sample| sample.has_stream(record, &mut random)),
                |buffer, settings| settings.write_stream(buffer, record, &mut timestamps),
            );
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
    // Enough for about 30,000 JSON lines of 500 bytes.
    buffer_bytes_max: 16 << 20,
    kept_bytes_max: 1 << 20,
    write_every: Some(Duration::from_millis(100)),
};
