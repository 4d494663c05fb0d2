//! The headers `traceparent` and `tracestate` of requests to an upstream (W3C Trace Context).
//!
//! The gateway prepares a request once, and may send it in several attempts. Each attempt has its own span, so
//! the gateway replaces the span id in the prepared header before each attempt.

use std::num::NonZeroUsize;

use thruway_message::FieldName;
use thruway_message::token::is_in_any_case;
use thruway_telemetry::{RequestTrace, SpanId};

/// Returns `true` for the trace headers of the client, which the gateway replaces if tracing is on.
#[inline]
pub(super) fn is_trace_field(name: FieldName<'_>) -> bool {
    let name = name.as_bytes();
    match name.len() {
        10 => is_in_any_case(name, b"tracestate"),
        11 => is_in_any_case(name, b"traceparent"),
        _ => false,
    }
}

/// Appends the headers of `trace`, with the span of the client's request. Returns the byte position of the
/// span id. The function is never inlined, because its code would make requests without a trace slower.
#[inline(never)]
pub(super) fn write_trace_fields(lines: &mut Vec<u8>, trace: &RequestTrace) -> NonZeroUsize {
    lines.extend_from_slice(NAME);
    let value_at = lines.len();
    lines.extend_from_slice(&trace.trace_parent().to_bytes());
    lines.extend_from_slice(b"\r\n");
    let state = trace.state();
    if !state.is_empty() {
        lines.extend_from_slice(b"tracestate: ");
        lines.extend_from_slice(state.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    NonZeroUsize::MIN.saturating_add(value_at + SPAN_AT - 1)
}

/// Replaces the span id at the byte position `at`.
pub(super) fn set_span(bytes: &mut [u8], at: NonZeroUsize, span: SpanId) {
    let digits = span.to_hex();
    if let Some(place) = bytes.get_mut(at.get()..at.get() + digits.len()) {
        place.copy_from_slice(&digits);
    }
}

/// The name of the header with the trace and the parent span.
pub(super) const TRACE_PARENT: FieldName<'static> = FieldName::from_static("traceparent");

/// The name of the header, with its separator.
const NAME: &[u8] = b"traceparent: ";

/// Position of the span id in the value of `traceparent`.
const SPAN_AT: usize = 36;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thruway_telemetry::{Sampling, TraceParent, Tracer};

    use super::*;

    const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn span_of_the_attempt_replaces_the_span_of_the_request() {
        let tracer = Tracer::new(Sampling { ratio: 0.0, slow: Duration::MAX });
        let trace = tracer.begin(TraceParent::parse(PARENT), "a=1,b=2", Duration::ZERO);
        let mut lines = b"GET / HTTP/1.1\r\n".to_vec();
        let at = write_trace_fields(&mut lines, &trace);
        let text = |parent: TraceParent| {
            let value = String::from_utf8(parent.to_bytes().to_vec()).unwrap();
            format!("GET / HTTP/1.1\r\ntraceparent: {value}\r\ntracestate: a=1,b=2\r\n")
        };
        assert_eq!(String::from_utf8(lines.clone()).unwrap(), text(trace.trace_parent()));
        let span = SpanId::random();
        set_span(&mut lines, at, span);
        assert_eq!(String::from_utf8(lines).unwrap(), text(trace.trace_parent().with_span(span)));
    }
}
