//! The messages of OTLP, the OpenTelemetry protocol, version 1: `opentelemetry/proto/trace/v1/trace.proto`
//! and
//! `opentelemetry/proto/collector/trace/v1/trace_service.proto`. The numbers in the functions are the field
//! numbers of these files. The request and the response for metrics have the same field numbers as for
//! traces.

use crate::attributes::{SpanAttributes, write_parts, write_text};
use crate::protobuf::{Field, low_byte, read_field, write_bytes, write_fixed64, write_message};
use crate::span::{Event, Span, SpanStatus};

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
    write_message(output, SPANS, |output| {
        output.extend_from_slice(&fixed_fields(span));
        if let Some(parent) = span.parent {
            let mut field = [0x22, 8, 0, 0, 0, 0, 0, 0, 0, 0];
            field[2..].copy_from_slice(&parent.0);
            output.extend_from_slice(&field);
        }
        write_bytes(output, 3, span.state.as_bytes());
        match span.target {
            Some(target) => write_parts(output, 5, [span.name, " ", target]),
            None => write_parts(output, 5, [span.name]),
        }
        add(&mut SpanAttributes::new(output));
        if let Some(event) = span.event {
            write_event(output, event);
        }
        if span.status == SpanStatus::Error {
            output.extend_from_slice(STATUS_ERROR);
        }
    });
}

/// Returns the fields that each span has: the ids (1, 2), the kind (6), the times (7, 8) and the flags (16).
#[inline]
fn fixed_fields(span: &Span<'_>) -> [u8; 54] {
    let remote = if span.is_parent_remote { IS_REMOTE } else { 0 };
    let flags = u32::from(span.own.flags) | HAS_IS_REMOTE | remote;
    let mut fields = [0; 54];
    fields[..2].copy_from_slice(&[0x0a, 16]);
    fields[2..18].copy_from_slice(&span.own.trace_id.0);
    fields[18..20].copy_from_slice(&[0x12, 8]);
    fields[20..28].copy_from_slice(&span.own.span_id.0);
    fields[28..31].copy_from_slice(&[0x30, span.kind as u8, 0x39]);
    fields[31..39].copy_from_slice(&span.start_nanos.to_le_bytes());
    fields[39] = 0x41;
    fields[40..48].copy_from_slice(&span.end_nanos.to_le_bytes());
    fields[48..50].copy_from_slice(&[0x85, 0x01]);
    fields[50..].copy_from_slice(&flags.to_le_bytes());
    fields
}

/// Appends an event, whose name is shorter than 100 bytes.
#[inline]
fn write_event(output: &mut Vec<u8>, Event { name, nanos }: Event) {
    let length = low_byte(name.len() as u64);
    output.extend_from_slice(&[0x5a, 11 + length]);
    write_fixed64(output, 1, nanos);
    output.extend_from_slice(&[0x12, length]);
    output.extend_from_slice(name.as_bytes());
}

fn write_text_attribute(output: &mut Vec<u8>, name: &'static str, text: &str) {
    write_text(output, 1, name, [text]);
}

/// Returns an `ExportTraceServiceRequest` with the encoded spans of a [batch](crate::SpanBatch::bytes), or an
/// `ExportMetricsServiceRequest` with the encoded metrics of a [batch](crate::MetricBatch::bytes).
pub fn encode_request(resource: &Resource, entries: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(entries.len() + 512);
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
            output.extend_from_slice(entries);
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
    fn grpc_frame_has_the_length_of_the_message() {
        assert_eq!(grpc_frame(b"abc"), b"\0\0\0\0\x03abc");
    }
}
