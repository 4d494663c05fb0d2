//! The headers `traceparent` and `tracestate` of requests to an upstream (W3C Trace Context).
//!
//! The gateway prepares a request once, and may send it in several attempts. Each attempt has its own span, so
//! the gateway replaces the span id in the prepared header before each attempt.

use std::num::NonZeroU32;

use thruway_message::FieldName;
use thruway_message::token::is_in_any_case;
use thruway_telemetry::{RequestTrace, SpanId, TraceParent};

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

/// The position of the span id in a prepared `traceparent`, and this id.
#[derive(Clone, Copy)]
pub(super) struct TraceSpan {
    at: NonZeroU32,
    id: SpanId,
    /// `true` if the path of the prepared request equals the path of the client's request.
    pub(super) has_same_path: bool,
}

impl TraceSpan {
    /// Replaces the span id in the prepared request `bytes`.
    #[inline]
    pub(super) fn set(&mut self, bytes: &mut [u8], id: SpanId) {
        if self.id != id {
            self.id = id;
            let (at, digits) = (self.at.get() as usize, id.to_hex());
            if let Some(place) = bytes.get_mut(at..at + digits.len()) {
                place.copy_from_slice(&digits);
            }
        }
    }
}

/// Appends the headers of `trace`, with the span that the first attempt usually gets. Returns the place of the
/// span id. The function is never inlined, because its code would make requests without a trace slower.
#[inline(never)]
pub(super) fn write_trace_fields(
    lines: &mut Vec<u8>,
    trace: &RequestTrace,
    has_same_path: bool,
) -> Option<TraceSpan> {
    let at = lines.len() + TraceParent::SPAN_AT;
    let id = trace.next_step();
    lines.extend_from_slice(&trace.trace_parent().with_span(id).to_line());
    let state = trace.state();
    if !state.is_empty() {
        lines.extend_from_slice(b"tracestate: ");
        lines.extend_from_slice(state.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    Some(TraceSpan { at: NonZeroU32::new(u32::try_from(at).ok()?)?, id, has_same_path })
}

/// The name of the header with the trace and the parent span.
pub(super) const TRACE_PARENT: FieldName<'static> = FieldName::from_static("traceparent");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thruway_telemetry::{Sampling, Tracer};

    use super::*;

    const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn span_of_a_further_attempt_replaces_the_span_of_the_first() {
        let tracer = Tracer::new(Sampling { ratio: 0.0, slow: Duration::MAX });
        let trace = tracer.begin(TraceParent::parse(PARENT), "a=1,b=2", Duration::ZERO);
        let mut lines = b"GET / HTTP/1.1\r\n".to_vec();
        let mut place = write_trace_fields(&mut lines, &trace, false).unwrap();
        let text = |parent: TraceParent| {
            let value = String::from_utf8(parent.to_bytes().to_vec()).unwrap();
            format!("GET / HTTP/1.1\r\ntraceparent: {value}\r\ntracestate: a=1,b=2\r\n")
        };
        let first = trace.trace_parent().with_span(trace.next_step());
        assert_eq!(String::from_utf8(lines.clone()).unwrap(), text(first));
        place.set(&mut lines, first.span_id);
        assert_eq!(String::from_utf8(lines.clone()).unwrap(), text(first));
        let span = SpanId::random();
        place.set(&mut lines, span);
        assert_eq!(String::from_utf8(lines).unwrap(), text(trace.trace_parent().with_span(span)));
    }
}
