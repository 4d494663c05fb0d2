//! The fields that every answer has: `Server` and `Date` (RFC 9110 §10.2.4 and §6.6.1).

use std::io::Write;
use std::time::Duration;

use httpdate::HttpDate;
use thruway_message::FieldLinesBuf;
use thruway_net::Clock;

/// The two lines as they are written, renewed once a second.
#[derive(Debug)]
pub(crate) struct OriginFields {
    lines: Vec<u8>,
    renewed_at: Option<Duration>,
}

impl OriginFields {
    pub(crate) const fn new() -> Self {
        Self { lines: Vec::new(), renewed_at: None }
    }

    /// Renews the date if it shows another second than it did.
    #[inline]
    pub(crate) fn renew(&mut self, clock: &Clock, now: Duration) {
        if self.renewed_at.is_none_or(|at| now.saturating_sub(at) >= RENEWED_EVERY) {
            self.write(clock);
            self.renewed_at = Some(now);
        }
    }

    /// Both lines.
    #[inline]
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Those of the lines that `field_lines` does not have, and of the line `strict`, if there is one (RFC 6797 §6.1).
    pub(crate) fn lines_beside(&self, field_lines: &FieldLinesBuf, strict: Option<&str>) -> Vec<u8> {
        let (server, date) = self.lines.split_at(SERVER_LINE.len());
        let strict = strict.unwrap_or_default().as_bytes();
        let mut lines = Vec::new();
        for (name, line) in [("server", server), ("date", date), ("strict-transport-security", strict)] {
            if field_lines.field(name).is_none() {
                lines.extend_from_slice(line);
            }
        }
        lines
    }

    #[cold]
    fn write(&mut self, clock: &Clock) {
        self.lines.clear();
        self.lines.extend_from_slice(SERVER_LINE);
        // Into a vector, writing cannot fail.
        let _ = write!(self.lines, "Date: {}\r\n", HttpDate::from(clock.time_of_day()));
    }
}

const SERVER_LINE: &[u8] = b"Server: thruway\r\n";

/// A date may be this much behind: a second, less what the clock is inexact.
const RENEWED_EVERY: Duration = Duration::from_millis(500);
