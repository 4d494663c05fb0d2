//! Audit logs: one JSON line for each audit event.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;
use thruway_net::{DroppedLines, LogBuffer, LogTarget, LogWriter, LogWriterConfig};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::audit::{AuditEvent, AuditOutcome, AuditSink};

/// An audit log. A separate thread writes one JSON line for each [`AuditEvent`], about ten times per second.
/// If the target is too slow, the log drops lines and counts them, so that requests never wait for the log.
/// Clones of an `AuditLog` write to the same target.
///
/// ```text
/// {"time":"2026-07-28T12:00:00.123Z","caller":"https://login.example ada","session":7,"server":"files",
/// "method":"tools/call","name":"files__read","revision":"2025-11-25","outcome":"ok",
/// "duration_seconds":0.001234,"request_bytes":52,"response_bytes":130}
/// ```
///
/// The outcome is `ok`, `input_required`, `tool_error`, `error` (with `error_code`) or `canceled`. Members
/// without a value are missing.
#[derive(Clone)]
pub struct AuditLog {
    writer: Arc<LogWriter<()>>,
    lines: Arc<LogBuffer<()>>,
}

impl AuditLog {
    /// Starts a thread that writes to `target`.
    ///
    /// # Errors
    /// The operating system refuses to create a thread.
    pub fn start(target: impl LogTarget + 'static) -> io::Result<Self> {
        let writer = LogWriter::start(WRITER, (), target)?;
        let lines = writer.add_buffer();
        Ok(Self { writer: Arc::new(writer), lines })
    }

    /// Switches to `target`. Lines that are already in the buffer go to the previous target.
    pub fn replace(&self, target: impl LogTarget + 'static) {
        self.writer.replace((), target, |()| {});
    }

    /// Reopens the target, such as a log file that another program has renamed. The thread of the log does
    /// this shortly after this call has returned.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    /// Writes the remaining lines and ends the thread. Waits at most one second for a blocked target. Returns
    /// the number of dropped lines since the start.
    pub fn finish(&self) -> u64 {
        self.writer.finish()
    }

    /// Returns the numbers of lines that the log has not written since its start.
    pub fn dropped(&self) -> DroppedLines {
        self.writer.dropped()
    }
}

impl AuditSink for AuditLog {
    fn record(&self, event: &AuditEvent<'_>) {
        let mut line = Vec::with_capacity(LINE_BYTES);
        // Strings and numbers can always be written as JSON.
        if serde_json::to_writer(&mut line, &Line::of(event)).is_ok() {
            line.push(b'\n');
            self.lines.append(|bytes, ()| bytes.extend_from_slice(&line));
        }
    }
}

/// The members of a line, in this order.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    revision: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<i64>,
    duration_seconds: f64,
    request_bytes: usize,
    response_bytes: usize,
}

impl<'a> Line<'a> {
    fn of(event: &AuditEvent<'a>) -> Self {
        let (outcome, error_code) = match event.outcome {
            AuditOutcome::Ok => ("ok", None),
            AuditOutcome::InputRequired => ("input_required", None),
            AuditOutcome::ToolError => ("tool_error", None),
            AuditOutcome::Error(code) => ("error", Some(code.0)),
            AuditOutcome::Canceled => ("canceled", None),
        };
        let time = OffsetDateTime::from(event.time).truncate_to_millisecond();
        Self {
            time: time.format(&Rfc3339).unwrap_or_default(),
            caller: event.caller,
            session: event.session,
            server: event.member,
            method: event.method,
            name: event.name,
            revision: event.revision.as_str(),
            outcome,
            error_code,
            duration_seconds: event.duration.as_secs_f64(),
            request_bytes: event.request_bytes,
            response_bytes: event.response_bytes,
        }
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

const WRITER: LogWriterConfig = LogWriterConfig {
    thread_name: "audit-log",
    // Enough for about 50,000 lines of 300 bytes.
    buffer_bytes_max: 16 << 20,
    kept_bytes_max: 1 << 20,
    write_every: Some(Duration::from_millis(100)),
};

/// Typical size of a line in bytes.
const LINE_BYTES: usize = 384;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::SystemTime;

    use thruway_mcp::Revision;
    use thruway_mcp::json_rpc::ErrorCode;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl LogTarget for Memory {
        fn write(&mut self, bytes: &[u8]) {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }

        fn report_dropped(&mut self, _: u64) {}
    }

    #[test]
    fn event_is_one_json_line() {
        let memory = Memory::default();
        let log = AuditLog::start(memory.clone()).unwrap();
        let event = AuditEvent {
            time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_234_567),
            caller: Some("https://login.example ada"),
            session: Some(7),
            member: Some("files"),
            method: "tools/call",
            name: Some("files__\"re\nad"),
            revision: Revision::LATEST,
            outcome: AuditOutcome::Error(ErrorCode::INVALID_PARAMS),
            duration: Duration::from_micros(1500),
            request_bytes: 10,
            response_bytes: 20,
        };
        log.record(&event);
        let ok = AuditOutcome::Ok;
        log.record(&AuditEvent {
            caller: None,
            session: None,
            member: None,
            name: None,
            outcome: ok,
            ..event
        });
        assert_eq!(log.finish(), 0);
        let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"time":"1970-01-01T00:00:01.234Z","caller":"https://login.example ada","session":7,"server":"files","method":"tools/call","name":"files__\"re\nad","revision":"2026-07-28","outcome":"error","error_code":-32602,"duration_seconds":0.0015,"request_bytes":10,"response_bytes":20}"#,
                r#"{"time":"1970-01-01T00:00:01.234Z","method":"tools/call","revision":"2026-07-28","outcome":"ok","duration_seconds":0.0015,"request_bytes":10,"response_bytes":20}"#,
            ]
        );
    }
}
