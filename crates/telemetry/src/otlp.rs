//! The messages of OTLP, the OpenTelemetry protocol, version 1: `opentelemetry/proto/trace/v1/trace.proto`
//! and
//! `opentelemetry/proto/collector/trace/v1/trace_service.proto`. The numbers in the functions are the field
//! numbers of these files. The request and the response for metrics have the same field numbers as for
//! traces.

use crate::attributes::{SpanAttributes, write_name, write_text};
use crate::protobuf::{
    EXPECTED_LENGTH_BYTES, Field, LENGTH_DELIMITED, low_byte, read_field, set_length, write_bytes,
    write_length, write_message,
};
use crate::span::{Span, SpanStatus};
use crate::trace_parent::SpanId;

/// Attributes of the process that creates the spans and metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The attribute `service.name`.
    pub service_name: String,
    /// The attribute `service.version`.
    pub service_version: &'static str,
    /// The attribute `service.instance.id`, which differs between processes.
    pub instance_id: String,
}

/// Appends `span` as an entry of the list `ScopeSpans.spans`. `add` adds the attributes.
#[inline]
pub(crate) fn write_span(output: &mut Vec<u8>, span: &Span<'_>, add: impl FnOnce(&mut SpanAttributes<'_>)) {
    let start = output.len() + LENGTH_AT + EXPECTED_LENGTH_BYTES;
    match span.parent {
        Some(parent) => output.extend_from_slice(&with_parent(span, parent)),
        None => output.extend_from_slice(&first_fields(span)),
    }
    write_bytes(output, 3, span.state.as_bytes());
    if !span.name.is_empty() {
        write_name(output, span.name, span.target);
    }
    add(&mut SpanAttributes::new(output));
    if let Some(nanos) = span.first_byte_nanos {
        write_first_byte(output, nanos);
    }
    if span.status == SpanStatus::Error {
        output.extend_from_slice(STATUS_ERROR);
    }
    set_length(output, start);
}

/// Returns the tag of a span, space for its length, and the fields that each span has: the ids (1, 2), the kind
/// (6), the times (7, 8) and the flags (16).
#[inline]
fn first_fields(span: &Span<'_>) -> [u8; FIRST_BYTES] {
    let remote = if span.is_parent_remote { IS_REMOTE } else { 0 };
    let flags = u32::from(span.own.flags) | HAS_IS_REMOTE | remote;
    let mut fields = [0; FIRST_BYTES];
    fields[0] = low_byte((SPANS << 3 | LENGTH_DELIMITED).into());
    fields[3..5].copy_from_slice(&[0x0a, 16]);
    fields[5..21].copy_from_slice(&span.own.trace_id.0);
    fields[21..23].copy_from_slice(&[0x12, 8]);
    fields[23..31].copy_from_slice(&span.own.span_id.0);
    fields[31..34].copy_from_slice(&[0x30, span.kind as u8, 0x39]);
    fields[34..42].copy_from_slice(&span.start_nanos.to_le_bytes());
    fields[42] = 0x41;
    fields[43..51].copy_from_slice(&span.end_nanos.to_le_bytes());
    fields[51..53].copy_from_slice(&[0x85, 0x01]);
    fields[53..].copy_from_slice(&flags.to_le_bytes());
    fields
}

/// Returns the [first fields](first_fields) and the parent (4).
#[inline]
fn with_parent(span: &Span<'_>, parent: SpanId) -> [u8; FIRST_BYTES + 10] {
    let mut fields = [0; FIRST_BYTES + 10];
    fields[..FIRST_BYTES].copy_from_slice(&first_fields(span));
    fields[FIRST_BYTES..FIRST_BYTES + 2].copy_from_slice(&[0x22, 8]);
    fields[FIRST_BYTES + 2..].copy_from_slice(&parent.0);
    fields
}

/// Appends the event `first byte`.
#[inline]
fn write_first_byte(output: &mut Vec<u8>, nanos: u64) {
    let mut event = *b"\x5a\x15\x09........\x12\x0afirst byte";
    event[3..11].copy_from_slice(&nanos.to_le_bytes());
    output.extend_from_slice(&event);
}

fn write_text_attribute(output: &mut Vec<u8>, name: &'static str, text: &str) {
    write_text(output, 1, name, [text.as_bytes()]);
}

/// Returns an `ExportTraceServiceRequest` with the encoded spans of a [batch](crate::SpanBatch::bytes), or an
/// `ExportMetricsServiceRequest` with the encoded metrics of a [batch](crate::MetricBatch::bytes).
pub fn encode_request(resource: &Resource, entries: &[u8], framing: Framing) -> Vec<u8> {
    let mut output = request_start(resource, entries.len(), framing);
    output.extend_from_slice(entries);
    output
}

/// Returns the part of a request before its encoded entries, which have `entries_bytes` bytes.
pub(crate) fn request_start(resource: &Resource, entries_bytes: usize, framing: Framing) -> Vec<u8> {
    let (mut first, mut scope) = (Vec::with_capacity(512), Vec::new());
    write_message(&mut first, 1, |output| {
        write_text_attribute(output, "service.name", &resource.service_name);
        write_text_attribute(output, "service.version", resource.service_version);
        write_text_attribute(output, "service.instance.id", &resource.instance_id);
        write_text_attribute(output, "telemetry.sdk.name", "thruway");
        write_text_attribute(output, "telemetry.sdk.language", "rust");
        write_text_attribute(output, "telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
    });
    write_message(&mut scope, 1, |output| write_bytes(output, 1, b"thruway"));
    write_length(&mut first, 2, scope.len() + entries_bytes);
    first.append(&mut scope);
    let mut start = Vec::with_capacity(first.len() + 16);
    write_length(&mut start, 1, first.len() + entries_bytes);
    start.append(&mut first);
    match framing {
        Framing::None => start,
        Framing::Grpc => [&grpc_prefix(start.len() + entries_bytes)[..], &start].concat(),
    }
}

/// The bytes around a message that the transport needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Only the message, for HTTP.
    None,
    /// The prefix of a gRPC message.
    Grpc,
}

/// Returns the prefix of a gRPC message with `length` bytes: no compression, and the length.
fn grpc_prefix(length: usize) -> [u8; 5] {
    let mut prefix = [0; 5];
    prefix[1..].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    prefix
}

/// Returns the number of spans or values of metrics that the collector has rejected, according to its
/// `ExportTraceServiceResponse` or `ExportMetricsServiceResponse`. Returns 0 for malformed responses.
pub fn rejected_items(response: &[u8]) -> u64 {
    let Some(partial_success) = fields(response).find_map(|field| match field {
        (1, Field::Bytes(partial_success)) => Some(partial_success),
        _ => None,
    }) else {
        return 0;
    };
    let rejected = fields(partial_success).find_map(|field| match field {
        (1, Field::Integer(rejected)) => Some(rejected),
        _ => None,
    });
    rejected.unwrap_or(0)
}

fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let (number, field, rest) = read_field(message)?;
        message = rest;
        Some((number, field))
    })
}

/// The field number of `ScopeSpans.spans`.
const SPANS: u32 = 2;

/// Position of the length of a span after its tag.
const LENGTH_AT: usize = 1;

/// Number of bytes of the tag, the length and the first fields of a span.
const FIRST_BYTES: usize = 57;

/// The field `Span.status` with the code `STATUS_CODE_ERROR`.
const STATUS_ERROR: &[u8; 4] = &[0x7a, 2, 0x18, 2];

/// `SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`: the next flag is known.
const HAS_IS_REMOTE: u32 = 0x100;

/// `SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`: the parent is a span of another process.
const IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_items_of_a_partial_success_are_counted() {
        assert_eq!(rejected_items(b""), 0);
        assert_eq!(rejected_items(&[0x0a, 0]), 0);
        assert_eq!(rejected_items(&[0x0a, 5, 0x08, 7, 0x12, 1, b'x']), 7);
        for malformed in [&[0x0a][..], &[0xff; 20], &[0x0a, 200, 1], b"<html>"] {
            assert_eq!(rejected_items(malformed), 0);
        }
    }

    #[test]
    fn grpc_prefix_has_the_length_of_the_message() {
        let resource = Resource { service_name: "a".into(), service_version: "1", instance_id: "2".into() };
        let message = encode_request(&resource, b"abc", Framing::None);
        let framed = encode_request(&resource, b"abc", Framing::Grpc);
        assert_eq!(framed[..5], [0, 0, 0, 0, u8::try_from(message.len()).unwrap()]);
        assert_eq!(framed[5..], message);
    }

    #[test]
    fn length_of_a_request_includes_its_entries() {
        let resource = Resource { service_name: "a".into(), service_version: "1", instance_id: "2".into() };
        for length in [0, 1, 100, 20_000] {
            let entries = vec![7; length];
            let request = encode_request(&resource, &entries, Framing::None);
            let Some((1, Field::Bytes(spans_of_resource), [])) = read_field(&request) else { panic!() };
            let Some((1, Field::Bytes(_), scope)) = read_field(spans_of_resource) else { panic!() };
            let Some((2, Field::Bytes(scope), [])) = read_field(scope) else { panic!() };
            let Some((1, Field::Bytes(_), left)) = read_field(scope) else { panic!() };
            assert_eq!(left, entries);
        }
    }
}
