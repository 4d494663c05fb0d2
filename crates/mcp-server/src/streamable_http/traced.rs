//! The spans of MCP requests over HTTP, by the semantic conventions of OpenTelemetry.

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Request;
use thruway_mcp::params::{Params, RequestMeta, TraceContext, meta_keys};
use thruway_message::FieldLines;
use thruway_net::Clock;
use thruway_telemetry::{McpDetail, RequestTrace, StepDetail, TraceParent, combine_trace_state};

/// The trace of an HTTP request that contains MCP requests.
#[derive(Clone, Copy)]
pub(super) struct Traced<'a> {
    trace: &'a RequestTrace,
    clock: &'a Clock,
}

impl<'a> Traced<'a> {
    pub(super) const fn new(trace: &'a RequestTrace, clock: &'a Clock) -> Self {
        Self { trace, clock }
    }

    /// Begins the span of an MCP request, which ends together with the HTTP request. If the HTTP headers contain
    /// no trace, the request continues the trace in `_meta`. Sets the trace context of forwarded requests in
    /// `params`.
    pub(super) fn begin(self, fields: FieldLines<'_>, request: &Request<'_>, params: &mut Params<'_>) {
        if let Some((parent, state)) = context_in(&params.meta) {
            self.trace.adopt(parent, &state);
        }
        let version = fields.field("mcp-protocol-version").and_then(|version| version.as_str());
        let detail = McpDetail {
            method: request.method.as_ref().into(),
            target: params.name.as_deref().or(params.uri.as_deref()).map(Into::into),
            protocol_version: version.map(Into::into),
            ..McpDetail::default()
        };
        let start = self.clock.now_exact();
        self.trace.enter(self.trace.begin(StepDetail::Mcp(Box::new(detail)), None, start));
        let parent = self.trace.current().to_bytes();
        let parent = str::from_utf8(&parent).unwrap_or_default().into();
        let context = TraceContext { parent, state: (*self.trace.state()).into() };
        params.meta.forwarded_trace = Some(Box::new(context));
    }
}

/// Returns the trace context in `_meta`. `None` if there is no valid `traceparent`.
fn context_in(meta: &RequestMeta<'_>) -> Option<(TraceParent, String)> {
    let parent = TraceParent::parse(text(meta.other(meta_keys::TRACE_PARENT)?)?.as_bytes())?;
    let state = meta.other(meta_keys::TRACE_STATE).and_then(text).unwrap_or_default();
    Some((parent, combine_trace_state([state.as_bytes()])))
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Returns the state in the trace context of `meta`.
    fn state(meta: &str) -> Option<String> {
        let params = format!("{{\"_meta\":{meta}}}");
        let params: Box<RawValue> = serde_json::from_str(&params).unwrap();
        let params = Params::parse(Some(&params)).unwrap();
        context_in(&params.meta).map(|(_, state)| state)
    }

    #[test]
    fn invalid_trace_context_in_meta_is_ignored() {
        for meta in ["{}", "{\"traceparent\":7}", "{\"traceparent\":\"00\"}", "{\"tracestate\":\"a=1\"}"] {
            assert_eq!(state(meta), None, "{meta}");
        }
        let with = |other: &str| format!("{{\"traceparent\":\"{PARENT}\"{other}}}");
        assert_eq!(state(&with("")).as_deref(), Some(""));
        assert_eq!(state(&with(",\"tracestate\":\"a=1, b=2\"")).as_deref(), Some("a=1,b=2"));
        for invalid in ["7", "\"a==\"", "\"a=\\n\""] {
            assert_eq!(state(&with(&format!(",\"tracestate\":{invalid}"))).as_deref(), Some(""), "{invalid}");
        }
    }
}
