//! The messages of OTLP, the OpenTelemetry protocol, version 1: `opentelemetry/proto/trace/v1/trace.proto` and
//! `opentelemetry/proto/collector/trace/v1/trace_service.proto`. The numbers in the functions are the field
//! numbers of these files.

use crate::protobuf::{
    Field, read_field, varint_bytes, write_bytes, write_fixed32, write_fixed64, write_integer, write_message,
};
use crate::span::{Attribute, Event, Span, SpanStatus, Value};

/// Attributes of the process that creates the spans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The attribute `service.name`.
    pub service_name: String,
    /// The attribute `service.version`.
    pub service_version: &'static str,
    /// The attribute `service.instance.id`, which differs between processes.
    pub instance_id: String,
}

/// Appends `span` as an entry of the list `ScopeSpans.spans`.
pub(crate) fn write_span(output: &mut Vec<u8>, span: &Span<'_>) {
    write_message(output, SPANS, |output| {
        write_bytes(output, 1, &span.own.trace_id.0);
        write_bytes(output, 2, &span.own.span_id.0);
        write_bytes(output, 3, span.state.as_bytes());
        if let Some(parent) = span.parent {
            write_bytes(output, 4, &parent.0);
        }
        write_bytes(output, 5, shortened(span.name).as_bytes());
        write_integer(output, 6, span.kind as u64);
        write_fixed64(output, 7, span.start_nanos);
        write_fixed64(output, 8, span.end_nanos);
        span.attributes.iter().for_each(|attribute| write_attribute(output, 9, attribute));
        if let Some(Event { name, nanos }) = span.event {
            write_message(output, 11, |output| {
                write_fixed64(output, 1, nanos);
                write_bytes(output, 2, name.as_bytes());
            });
        }
        if span.status == SpanStatus::Error {
            write_message(output, 15, |output| write_integer(output, 3, STATUS_ERROR));
        }
        let remote = if span.is_parent_remote { IS_REMOTE } else { 0 };
        write_fixed32(output, 16, u32::from(span.own.flags) | HAS_IS_REMOTE | remote);
    });
}

/// Appends a `KeyValue`.
fn write_attribute(output: &mut Vec<u8>, field: u32, attribute: &Attribute<'_>) {
    write_message(output, field, |output| {
        write_bytes(output, 1, attribute.name.as_bytes());
        write_message(output, 2, |output| match attribute.value {
            Value::Text(text) => write_bytes(output, 1, shortened(text).as_bytes()),
            Value::Integer(number) => write_integer(output, 3, number.cast_unsigned()),
        });
    });
}

fn write_text_attribute(output: &mut Vec<u8>, name: &'static str, text: &str) {
    write_attribute(output, 1, &Attribute { name, value: Value::Text(text) });
}

/// Returns the start of `text` with at most [`Value::TEXT_BYTES_MAX`] bytes.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(Value::TEXT_BYTES_MAX)]
}

/// Returns an `ExportTraceServiceRequest` with the encoded spans of a [batch](crate::SpanBatch::bytes).
pub fn encode_request(resource: &Resource, spans: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(spans.len() + 512);
    write_message(&mut output, 1, |output| {
        write_message(output, 1, |output| {
            write_text_attribute(output, "service.name", &resource.service_name);
            write_text_attribute(output, "service.version", resource.service_version);
            write_text_attribute(output, "service.instance.id", &resource.instance_id);
            write_text_attribute(output, "telemetry.sdk.name", "thruway");
            write_text_attribute(output, "telemetry.sdk.language", "rust");
            write_text_attribute(output, "telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        });
        write_message(output, 2, |output| {
            write_message(output, 1, |output| write_bytes(output, 1, b"thruway"));
            output.extend_from_slice(spans);
        });
    });
    output
}

/// Returns `message` with the prefix of a gRPC message: no compression, and the length.
pub fn grpc_frame(message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(message.len() + 5);
    frame.push(0);
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

/// Returns the number of spans that the collector has rejected, according to its
/// `ExportTraceServiceResponse`. Returns 0 for malformed responses.
pub fn rejected_spans(response: &[u8]) -> u64 {
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

/// Returns the length of the first entry in a list of encoded spans.
pub(crate) fn entry_bytes(list: &[u8]) -> Option<usize> {
    match read_field(list)? {
        (_, Field::Bytes(span), _) => Some(1 + varint_bytes(span.len() as u64) + span.len()),
        _ => None,
    }
}

/// The field number of `ScopeSpans.spans`.
const SPANS: u32 = 2;

/// `Status.StatusCode.STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;

/// `SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`: the next flag is known.
const HAS_IS_REMOTE: u32 = 0x100;

/// `SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`: the parent is a span of another process.
const IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened_at_a_character() {
        let text = "\u{e9}".repeat(600);
        assert_eq!(shortened(&text).len(), 1024);
        assert_eq!(shortened(&format!("a{text}")).len(), 1023);
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn rejected_spans_of_a_partial_success_are_counted() {
        assert_eq!(rejected_spans(b""), 0);
        assert_eq!(rejected_spans(&[0x0a, 0]), 0);
        assert_eq!(rejected_spans(&[0x0a, 5, 0x08, 7, 0x12, 1, b'x']), 7);
        for malformed in [&[0x0a][..], &[0xff; 20], &[0x0a, 200, 1], b"<html>"] {
            assert_eq!(rejected_spans(malformed), 0);
        }
    }

    #[test]
    fn grpc_frame_has_the_length_of_the_message() {
        assert_eq!(grpc_frame(b"abc"), b"\0\0\0\0\x03abc");
    }
}
