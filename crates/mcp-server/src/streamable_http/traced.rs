//! The spans of MCP requests over HTTP, by the semantic conventions of OpenTelemetry.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp::federated::CallOutcome;
use thruway_mcp::json_rpc::{Id, Request};
use thruway_mcp::params::{Params, RequestMeta, meta_keys};
use thruway_mcp::traced_call::{CallFailure, CallSpan, CallTracer, TraceContext, TracedCall};
use thruway_message::FieldLines;
use thruway_net::Clock;
use thruway_telemetry::{
    McpAnswered, McpCall, McpDetail, McpFailure, McpProgress, RequestTrace, SpanId, StepDetail, TraceParent,
    combine_trace_state,
};

use crate::dispatch::Reply;

/// The trace of an HTTP request that contains MCP requests.
#[derive(Clone, Copy)]
pub(super) struct Traced<'a> {
    trace: &'a RequestTrace,
    clock: &'a Clock,
}

/// The span of an MCP request.
#[derive(Clone)]
pub(super) struct McpSpan(Arc<McpProgress>);

/// Records the requests to MCP servers that belong to one MCP request.
#[derive(Debug)]
struct SpanTracer {
    /// The trace, and the span of the MCP request.
    parent: TraceParent,
    progress: Arc<McpProgress>,
}

/// The span of a request to an MCP server.
struct ServerCall {
    id: SpanId,
    trace_parent: Box<str>,
    failure: Option<McpFailure>,
    progress: Arc<McpProgress>,
}

impl<'a> Traced<'a> {
    pub(super) const fn new(trace: &'a RequestTrace, clock: &'a Clock) -> Self {
        Self { trace, clock }
    }

    /// Begins the span of an MCP request. If the HTTP headers contain no trace, the request continues the trace
    /// in `_meta`. Sets the trace context of forwarded requests in `params`.
    pub(super) fn begin(
        self,
        fields: FieldLines<'_>,
        request: &Request<'_>,
        params: &mut Params<'_>,
    ) -> McpSpan {
        if let Some((parent, state)) = context_in(&params.meta) {
            self.trace.adopt(parent, &state);
        }
        let version = fields.field("mcp-protocol-version").and_then(|version| version.as_str());
        let progress = Arc::<McpProgress>::default();
        let detail = McpDetail {
            method: request.method.as_ref().into(),
            target: params.name.as_deref().or(params.uri.as_deref()).map(Into::into),
            request_id: Some(id_text(&request.id)),
            protocol_version: version.map(Into::into),
            server: None,
            progress: progress.clone(),
        };
        // Each request of a batch has its own span below the span of the HTTP request.
        self.trace.leave();
        let start = self.clock.now_exact();
        self.trace.enter(self.trace.begin(StepDetail::Mcp(Box::new(detail)), None, start));
        let parent = self.trace.current();
        params.meta.forwarded_trace = Some(Box::new(TraceContext {
            parent: text_of(parent),
            state: (*self.trace.state()).into(),
            keeps_meta: false,
            tracer: Some(Arc::new(SpanTracer { parent, progress: progress.clone() })),
        }));
        McpSpan(progress)
    }
}

/// Returns the trace context in the HTTP headers, for forwarded requests without tracing. The trace context in
/// `_meta` stays.
pub(super) fn context_in_headers(fields: FieldLines<'_>) -> Option<TraceContext> {
    let mut parents = fields.all(TraceParent::FIELD_NAME);
    let parent = TraceParent::parse(parents.next()?.as_bytes()).filter(|_| parents.next().is_none())?;
    let state = combine_trace_state(fields.all(meta_keys::TRACE_STATE).map(|value| value.as_bytes()));
    Some(TraceContext { parent: text_of(parent), state: state.into(), keeps_meta: true, tracer: None })
}

fn text_of(parent: TraceParent) -> Box<str> {
    str::from_utf8(&parent.to_bytes()).unwrap_or_default().into()
}

/// Records the answer to a request in its span, now or when the answer is known. `output` contains an immediate
/// answer. Does nothing if tracing is off.
pub(super) fn observed(reply: Reply, output: &[u8], span: Option<&McpSpan>) -> Reply {
    let Some(span) = span.cloned() else { return reply };
    match reply {
        Reply::Later(exchange) => Reply::Later(exchange.on_answer(move |answer| span.answer(answer))),
        reply => {
            span.answer(output);
            reply
        }
    }
}

impl McpSpan {
    /// Records the answer to the request. Only the first call has an effect.
    pub(super) fn answer(&self, answer: &[u8]) {
        self.0.answer(McpAnswered { at: now(), failure: failure_in(answer) });
    }
}

impl CallTracer for SpanTracer {
    fn begin(&self, call: &TracedCall<'_>) -> Box<dyn CallSpan> {
        let id = SpanId::random();
        self.progress.begin_call(McpCall {
            id,
            start: now(),
            answered: None,
            method: call.method.into(),
            target: call.name.map(Into::into),
            request_id: call.id.to_string().into(),
            protocol_version: call.revision,
            server: call.server.map(Into::into),
            is_on_pipe: call.is_on_pipe,
        });
        let trace_parent = text_of(self.parent.with_span(id));
        Box::new(ServerCall { id, trace_parent, failure: None, progress: self.progress.clone() })
    }
}

impl CallSpan for ServerCall {
    fn trace_parent(&self) -> &str {
        &self.trace_parent
    }

    fn fail(&mut self, failure: CallFailure) {
        self.failure = Some(match failure {
            CallFailure::Code(code) => McpFailure::Code(code),
            CallFailure::Tool => McpFailure::Tool,
            CallFailure::Unanswered(reason) => McpFailure::Unanswered(reason),
        });
    }
}

impl Drop for ServerCall {
    fn drop(&mut self) {
        self.progress.end_call(self.id, McpAnswered { at: now(), failure: self.failure });
    }
}

/// Returns the time of the workers' clocks. Handlers may run on other threads, which have no worker.
fn now() -> Duration {
    Clock::system().now_exact()
}

/// Returns the failure in the response message `answer`.
fn failure_in(answer: &[u8]) -> Option<McpFailure> {
    match CallOutcome::failure_in(answer)? {
        CallOutcome::Error(code) => Some(McpFailure::Code(code.unwrap_or_default())),
        _ => Some(McpFailure::Tool),
    }
}

/// Returns a request id as text.
fn id_text(id: &Id<'_>) -> Box<str> {
    match id {
        Id::Integer(number) => number.to_string().into(),
        Id::String(text) => (**text).into(),
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
    use thruway_telemetry::{Sampling, Tracer};
    use thruway_testkit::otlp::decode_spans;
    use thruway_testkit::test_server::TestServer;

    use super::*;
    use crate::schema::{Implementation, Tool};
    use crate::{LegacySessions, McpServer, McpServerOptions};

    #[tokio::test]
    async fn each_request_of_a_batch_has_a_span_below_the_http_request() {
        let options =
            McpServerOptions { legacy_sessions: LegacySessions::Stateless, ..McpServerOptions::default() };
        let server =
            McpServer::with_options(Implementation::new("a", "1"), options).tool(Tool::new("yes"), || "yes");
        let tracer = Arc::new(Tracer::new(Sampling { ratio: 1.0, slow: Duration::MAX }));
        let mut client = TestServer::traced(server.endpoint(), &tracer).connect();
        let call = |id: u32, name: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#)
        };
        let body = format!("[{},{}]", call(7, "yes"), call(8, "no"));
        let fields = "Host: localhost\r\nContent-Type: application/json\r\n\
                      Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-03-26";
        let length = body.len();
        client.send(format!("POST / HTTP/1.1\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{body}"));
        let mut response = String::new();
        while !response.ends_with(']') {
            tokio::task::yield_now().await;
            response += &client.received();
        }
        let spans = decode_spans(tracer.queue().take().unwrap().bytes());
        let request = spans.iter().find(|span| span.name == "POST").unwrap();
        let mut calls: Vec<_> = spans.iter().filter(|span| span.name.starts_with("tools/call")).collect();
        calls.sort_by_key(|span| span.attributes["jsonrpc.request.id"].clone());
        let shown: Vec<_> = calls.iter().map(|span| (&*span.name, span.is_error)).collect();
        assert_eq!(shown, [("tools/call yes", false), ("tools/call no", true)]);
        assert!(calls.iter().all(|span| span.parent == request.span_id), "{spans:?}");
    }

    #[test]
    fn json_rpc_errors_and_errors_of_tools_are_failures() {
        for (answer, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"a"}}"#,
                Some(McpFailure::Code(-32602)),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#, Some(McpFailure::Tool)),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#, None),
            ("", None),
        ] {
            assert_eq!(failure_in(answer.as_bytes()), expected, "{answer}");
        }
    }

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
