//! A completed span, as plain data that borrows its texts.

use crate::trace_parent::{SpanId, TraceParent};

/// A completed span.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The trace, the id of this span, and the flags of the trace.
    pub own: TraceParent,
    /// The parent, if any.
    pub parent: Option<SpanId>,
    /// `true` if the parent is a span of another process.
    pub is_parent_remote: bool,
    /// The `tracestate` of the trace.
    pub state: &'a str,
    /// The name, or its first part. Empty if the [encoded fields](crate::EncodedFields) contain the name.
    pub name: &'a str,
    /// The second part of the name, if any. A space separates the parts.
    pub target: Option<&'a str>,
    /// The kind.
    pub kind: SpanKind,
    /// The start, in nanoseconds since the Unix epoch.
    pub start_nanos: u64,
    /// The end, in nanoseconds since the Unix epoch.
    pub end_nanos: u64,
    /// Time at which the head of a response arrived, in nanoseconds since the Unix epoch. It becomes the event
    /// `first byte`.
    pub first_byte_nanos: Option<u64>,
    /// The status.
    pub status: SpanStatus,
}

/// The kind of a span. The numbers are the numbers of OTLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// A step inside of this process.
    Internal = 1,
    /// A request to this process.
    Server = 2,
    /// A request from this process.
    Client = 3,
}

/// The status of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanStatus {
    /// The operation has not failed.
    Unset,
    /// The operation has failed.
    Error,
}

/// An attribute of a span or of a value of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    /// The name, such as `http.route`.
    pub name: &'static str,
    /// The value.
    pub value: Value<'a>,
}

/// The value of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// A text. The encoder shortens long texts to [`Value::TEXT_BYTES_MAX`].
    Text(&'a str),
    /// An integer.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
}

impl Value<'_> {
    /// Maximum length of a text in bytes, so that clients cannot create large spans.
    pub const TEXT_BYTES_MAX: usize = 1024;
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
