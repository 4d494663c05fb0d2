//! The fields that every answer has: `Server` and `Date` (RFC 9110 §10.2.4 and §6.6.1).

use std::cell::OnceCell;
use std::io::Write;
use std::time::Duration;

use http::HeaderValue;
use httpdate::HttpDate;
use thruway_net::Clock;

use crate::response::Marks;

/// The two lines as they are written, renewed once a second.
#[derive(Debug)]
pub(crate) struct OriginFields {
    lines: Vec<u8>,
    /// The second line's value by itself, for who writes no lines.
    date: OnceCell<HeaderValue>,
    renewed_at: Option<Duration>,
}

impl OriginFields {
    pub(crate) const fn new() -> Self {
        Self { lines: Vec::new(), date: OnceCell::new(), renewed_at: None }
    }

    /// Renews the date if it shows another second than it did.
    #[inline]
    pub(crate) fn renew(&mut self, clock: &Clock, now: Duration) {
        if self.renewed_at.is_none_or(|at| now.saturating_sub(at) >= RENEWED_EVERY) {
            self.write(clock);
            self.renewed_at = Some(now);
        }
    }

    /// The values of `Server` and `Date`.
    pub(crate) fn values(&self) -> (HeaderValue, HeaderValue) {
        let date = self.date.get_or_init(|| {
            let written = self.lines[SERVER_LINE.len()..].strip_prefix(b"Date: ");
            let date = written.and_then(|date| date.strip_suffix(b"\r\n")).unwrap_or_default();
            // A date has nothing in it that a value may not.
            HeaderValue::from_bytes(date).unwrap_or_else(|_| HeaderValue::from_static(""))
        });
        (HeaderValue::from_static(SERVER), date.clone())
    }

    /// Those of the lines that a response with `marks` does not have.
    #[inline]
    pub(crate) fn lines_beside(&self, marks: Marks) -> &[u8] {
        let (server, date) = self.lines.split_at(SERVER_LINE.len().min(self.lines.len()));
        match (marks.has_server, marks.has_date) {
            (false, false) => &self.lines,
            (false, true) => server,
            (true, false) => date,
            (true, true) => &[],
        }
    }

    #[cold]
    fn write(&mut self, clock: &Clock) {
        self.lines.clear();
        self.lines.extend_from_slice(SERVER_LINE);
        // Into a vector, writing cannot fail.
        let _ = write!(self.lines, "Date: {}\r\n", HttpDate::from(clock.time_of_day()));
        self.date.take();
    }
}

const SERVER_LINE: &[u8] = b"Server: thruway\r\n";
const SERVER: &str = "thruway";

/// A date may be this much behind: a second, less what the clock is inexact.
const RENEWED_EVERY: Duration = Duration::from_millis(500);
