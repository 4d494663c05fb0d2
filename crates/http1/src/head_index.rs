//! The positions of the parts of a parsed head. The caller keeps the bytes of the head.

use alloc::vec::Vec;

use thruway_message::{FieldLineSpan, FieldLines, RequestHead, ResponseHead};

use crate::host::KnownHost;
use crate::limits::Limits;
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
    spans: Vec<FieldLineSpan>,
    previous: PreviousHead,
}

/// A copy of the previous request head, while the index contains the positions of its parts.
#[derive(Default)]
struct PreviousHead {
    /// Empty if there is no copy.
    bytes: Vec<u8>,
    /// The limits that the parser has applied to the head.
    limits: Limits,
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
            previous: PreviousHead::default(),
        }
    }

    /// Removes the field lines of the most recently parsed section. Returns the empty list, for the next
    /// section.
    #[inline]
    pub(crate) fn clear(&mut self) -> &mut Vec<FieldLineSpan> {
        self.previous.bytes.clear();
        self.spans.clear();
        &mut self.spans
    }

    /// Returns the end of the request head at the start of `input`, if it is equal to the previous head. In
    /// this case, the contents of the index are valid for this head too.
    #[inline]
    pub(crate) fn repeated_head_end(&self, input: &[u8], limits: &Limits) -> Option<usize> {
        let PreviousHead { bytes, limits: of_previous } = &self.previous;
        let is_repeated = !bytes.is_empty() && input.starts_with(bytes) && of_previous == limits;
        is_repeated.then_some(bytes.len())
    }

    /// Copies the request head at the start of `input`, so that the parser can detect a repetition. `end` is
    /// the end of the head. Copies nothing if no further request has arrived, because the input of the next
    /// call may come from another connection.
    #[inline]
    pub(crate) fn keep_head(&mut self, input: &[u8], end: usize, limits: &Limits) {
        if end < input.len() && end <= KEPT_BYTES_MAX {
            self.previous.bytes.extend_from_slice(&input[..end]);
            self.previous.limits = *limits;
        }
    }

    /// Forgets the previous request head. Call this function before you parse the input of another
    /// connection. Otherwise, a client could measure if another client has sent the same head.
    #[inline]
    pub fn forget_head(&mut self) {
        self.previous.bytes.clear();
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

/// Maximum length of a head that the index copies, in bytes.
const KEPT_BYTES_MAX: usize = 4 << 10;
