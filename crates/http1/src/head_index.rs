//! What a parsed head consists of, without its octets.

use alloc::vec::Vec;

use thruway_message::{FieldLineSpan, FieldLines, RequestHead, ResponseHead};

use crate::host::KnownHost;
use crate::request_facts::RequestFacts;
use crate::request_line::RequestLine;
use crate::status_line::StatusLine;

/// Where the parts of the head or of the trailer section stand that was parsed last. Belongs to the caller,
/// who uses one for all messages.
pub struct HeadIndex {
    pub(crate) request_line: RequestLine,
    pub(crate) status_line: StatusLine,
    pub(crate) facts: RequestFacts,
    pub(crate) known_host: KnownHost,
    pub(crate) spans: Vec<FieldLineSpan>,
}

impl HeadIndex {
    /// An index with room for `field_lines`.
    pub fn with_capacity(field_lines: usize) -> Self {
        Self {
            request_line: RequestLine::default(),
            status_line: StatusLine::default(),
            facts: RequestFacts::PLAIN,
            known_host: KnownHost::default(),
            spans: Vec::with_capacity(field_lines),
        }
    }

    /// Forgets the field lines of what was parsed last.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
    }

    /// The head of the request that was parsed last. `octets` must be the input it was parsed from, as far as
    /// it was used.
    #[inline]
    pub fn request_head<'a>(&'a self, octets: &'a [u8]) -> RequestHead<'a> {
        let line = &self.request_line;
        RequestHead {
            method: line.method(octets),
            target: line.target(octets),
            version: line.version,
            field_lines: self.field_lines(octets),
        }
    }

    /// The head of the response that was parsed last. `octets` must be the input it was parsed from, as far
    /// as it was used.
    #[inline]
    pub fn response_head<'a>(&'a self, octets: &'a [u8]) -> ResponseHead<'a> {
        let line = &self.status_line;
        ResponseHead {
            status: line.status,
            reason: line.reason(octets),
            version: line.version,
            field_lines: self.field_lines(octets),
        }
    }

    /// What the connection must know of the request that was parsed last while it is answered.
    #[inline]
    pub const fn request_facts(&self) -> &RequestFacts {
        &self.facts
    }

    /// The field lines of the head or of the trailer section that was parsed last. `octets` must be the input
    /// it was parsed from, as far as it was used.
    #[inline]
    pub fn field_lines<'a>(&'a self, octets: &'a [u8]) -> FieldLines<'a> {
        FieldLines::from_parsed(octets, &self.spans)
    }
}

impl Default for HeadIndex {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}
