//! The positions of the parts of a parsed head. The caller keeps the bytes of the head.

use alloc::vec::Vec;

use thruway_message::{FieldLineSpan, FieldLines, RequestHead, ResponseHead};

use crate::host::KnownHost;
use crate::request_facts::RequestFacts;
use crate::request_line::RequestLine;
use crate::status_line::StatusLine;

/// The positions of the parts of the most recently parsed head or trailer section. The caller owns the
/// index, and uses the same index for all messages.
pub struct HeadIndex {
    pub(crate) request_line: RequestLine,
    pub(crate) status_line: StatusLine,
    pub(crate) facts: RequestFacts,
    pub(crate) known_host: KnownHost,
    pub(crate) spans: Vec<FieldLineSpan>,
}

impl HeadIndex {
    /// Returns an index with capacity for `field_lines` field lines.
    pub fn with_capacity(field_lines: usize) -> Self {
        Self {
            request_line: RequestLine::default(),
            status_line: StatusLine::default(),
            facts: RequestFacts::PLAIN,
            known_host: KnownHost::default(),
            spans: Vec::with_capacity(field_lines),
        }
    }

    /// Removes the field lines of the most recently parsed section.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
    }

    /// Returns the head of the most recently parsed request. `bytes` must be the input bytes that the
    /// parser consumed for this head.
    #[inline]
    pub fn request_head<'a>(&'a self, bytes: &'a [u8]) -> RequestHead<'a> {
        let line = &self.request_line;
        RequestHead {
            method: line.method(bytes),
            target: line.target(bytes),
            version: line.version,
            field_lines: self.field_lines(bytes),
        }
    }

    /// Returns the head of the most recently parsed response. `bytes` must be the input bytes that the
    /// parser consumed for this head.
    #[inline]
    pub fn response_head<'a>(&'a self, bytes: &'a [u8]) -> ResponseHead<'a> {
        let line = &self.status_line;
        ResponseHead {
            status: line.status,
            reason: line.reason(bytes),
            version: line.version,
            field_lines: self.field_lines(bytes),
        }
    }

    /// Returns the properties of the most recently parsed request that affect its response.
    #[inline]
    pub const fn request_facts(&self) -> &RequestFacts {
        &self.facts
    }

    /// Returns the field lines of the most recently parsed head or trailer section. `bytes` must be the
    /// input bytes that the parser consumed for this head or section.
    #[inline]
    pub fn field_lines<'a>(&'a self, bytes: &'a [u8]) -> FieldLines<'a> {
        FieldLines::from_parsed(bytes, &self.spans)
    }
}

impl Default for HeadIndex {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}
