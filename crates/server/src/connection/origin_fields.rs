//! The headers that the server adds to every response: `Server` and `Date` (RFC 9110 §10.2.4 and §6.6.1).

use std::cell::{OnceCell, RefCell};
use std::io::Write;
use std::ptr;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use httpdate::HttpDate;
use thruway_http1::PreparedHead;
use thruway_message::StatusCode;
use thruway_net::Clock;

use crate::response::Marks;

/// The lines `Server` and `Date` in the form in which HTTP/1.1 responses contain them.
#[derive(Debug)]
pub(crate) struct OriginFields {
    lines: Vec<u8>,
    /// The value of `Date`, for HTTP/2.
    date: OnceCell<HeaderValue>,
    /// Cache of HTTP/2 header sections with the current date. The key of an entry is the constant HTTP/1.1
    /// header section of a response, before `Server` and `Date` were added.
    sections: RefCell<Vec<(&'static str, HeaderMap)>>,
    /// Cache of HTTP/1.1 response heads with the current date. Contains the first kinds of responses.
    heads: Vec<CachedHead>,
    renewed_at: Option<Duration>,
}

/// A prepared head, with the status and the constant header section of its responses.
#[derive(Debug)]
struct CachedHead {
    status: StatusCode,
    lines: &'static str,
    head: PreparedHead,
}

impl OriginFields {
    pub(crate) const fn new() -> Self {
        Self {
            lines: Vec::new(),
            date: OnceCell::new(),
            sections: RefCell::new(Vec::new()),
            heads: Vec::new(),
            renewed_at: None,
        }
    }

    /// Updates the date if the last update was at least [`RENEWED_EVERY`] ago.
    #[inline]
    pub(crate) fn renew(&mut self, clock: &Clock, now: Duration) {
        if self.renewed_at.is_none_or(|at| now.saturating_sub(at) >= RENEWED_EVERY) {
            self.write(clock);
            self.renewed_at = Some(now);
        }
    }

    /// Returns the values of `Server` and `Date`.
    pub(crate) fn values(&self) -> (HeaderValue, HeaderValue) {
        let date = self.date.get_or_init(|| {
            let written = self.lines[SERVER_LINE.len()..].strip_prefix(b"Date: ");
            let date = written.and_then(|date| date.strip_suffix(b"\r\n")).unwrap_or_default();
            // Cannot fail, because a date contains only valid characters.
            HeaderValue::from_bytes(date).unwrap_or_else(|_| HeaderValue::from_static(""))
        });
        (HeaderValue::from_static(SERVER), date.clone())
    }

    /// Returns the HTTP/2 header section with the fields `lines`, `Server` and `Date`. Calls `make` to create
    /// the section if it is not in the cache.
    pub(crate) fn section(&self, lines: &'static str, make: impl FnOnce() -> HeaderMap) -> HeaderMap {
        let mut sections = self.sections.borrow_mut();
        if let Some((_, section)) = sections.iter().find(|(of, _)| ptr::eq(*of, lines)) {
            return section.clone();
        }
        let section = make();
        if sections.len() < SECTIONS_MAX {
            sections.push((lines, section.clone()));
        }
        section
    }

    /// Returns the prepared HTTP/1.1 head for responses with `status` and the constant header section
    /// `lines`. Prepares the head if it is not in the cache. Returns `None` if the cache is full.
    #[inline]
    pub(super) fn prepared(&mut self, status: StatusCode, lines: &'static str) -> Option<&mut PreparedHead> {
        let place = self.heads.iter().position(|cached| cached.is_for(status, lines));
        let place = place.or_else(|| self.prepare(status, lines))?;
        self.heads.get_mut(place).map(|cached| &mut cached.head)
    }

    /// Adds a prepared head to the cache. Returns its index, or `None` if the cache is full.
    #[cold]
    fn prepare(&mut self, status: StatusCode, lines: &'static str) -> Option<usize> {
        let place = self.heads.len();
        if place == SECTIONS_MAX {
            return None;
        }
        let head = PreparedHead::new(status, [&self.lines, lines.as_bytes()]);
        self.heads.push(CachedHead { status, lines, head });
        Some(place)
    }

    /// Returns the lines `Server` and `Date` for a response with `marks`. Leaves a line out if the handler
    /// has set this header in the response.
    #[inline]
    pub(crate) fn lines_without(&self, marks: Marks) -> &[u8] {
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
        // Writing to a vector cannot fail.
        let _ = write!(self.lines, "Date: {}\r\n", HttpDate::from(clock.time_of_day()));
        self.date.take();
        self.sections.get_mut().clear();
        // The heads keep their memory, so a new date causes no allocation.
        for CachedHead { status, lines, head } in &mut self.heads {
            head.renew(*status, [&self.lines, lines.as_bytes()]);
        }
    }
}

impl CachedHead {
    #[inline]
    fn is_for(&self, status: StatusCode, lines: &'static str) -> bool {
        self.status == status && ptr::eq(self.lines, lines)
    }
}

const SERVER_LINE: &[u8] = b"Server: thruway\r\n";
const SERVER: &str = "thruway";

/// Maximum number of entries in each cache. Programs use only a few different constant sections, one for each
/// type of response.
const SECTIONS_MAX: usize = 8;

/// Minimum time between two updates of the date. Half a second leaves a margin for the resolution of the
/// clock, so that the date is at most one second old.
const RENEWED_EVERY: Duration = Duration::from_millis(500);
