//! The spans of MCP operations, by the semantic conventions of OpenTelemetry for the Model Context Protocol.

use thruway_telemetry::{
    McpCall, McpDetail, McpFailure, Span, SpanAttributes, SpanKind, SpanStatus, SpanWriter,
};

use super::log::SpanTimes;

/// Writes the span of an operation, and the spans of its requests to MCP servers. `span` contains the id and the
/// start of the operation.
pub(super) fn write_mcp(
    writer: &mut SpanWriter<'_>,
    span: &Span<'_>,
    operation: &McpDetail,
    times: &SpanTimes,
) {
    let answered = operation.progress.answered();
    let named = Operation {
        method: &operation.method,
        target: operation.target.as_deref(),
        request_id: operation.request_id.as_deref(),
        protocol_version: operation.protocol_version.as_deref(),
        server: operation.server.as_deref(),
        transport: None,
        failure: answered.and_then(|answered| answered.failure),
    };
    let end_nanos = answered.map_or(span.end_nanos, |answered| times.nanos(answered.at));
    named.write(writer, Span { kind: SpanKind::Server, end_nanos, ..*span });
    for call in &*operation.progress.calls() {
        write_call(writer, span, call, times);
    }
}

/// Writes the span of a request to an MCP server. `operation` is the span of the operation.
fn write_call(writer: &mut SpanWriter<'_>, operation: &Span<'_>, call: &McpCall, times: &SpanTimes) {
    let named = Operation {
        method: &call.method,
        target: call.target.as_deref(),
        request_id: Some(&call.request_id),
        protocol_version: Some(call.protocol_version),
        server: call.server.as_deref(),
        transport: Some(if call.is_on_pipe { "pipe" } else { "tcp" }),
        failure: call.answered.and_then(|answered| answered.failure),
    };
    let span = Span {
        own: operation.own.with_span(call.id),
        parent: Some(operation.own.span_id),
        kind: SpanKind::Client,
        start_nanos: times.nanos(call.start),
        end_nanos: call.answered.map_or(times.end_nanos, |answered| times.nanos(answered.at)),
        ..*operation
    };
    named.write(writer, span);
}

/// The attributes that servers and clients have in common.
struct Operation<'a> {
    method: &'a str,
    target: Option<&'a str>,
    request_id: Option<&'a str>,
    protocol_version: Option<&'a str>,
    server: Option<&'a str>,
    transport: Option<&'static str>,
    failure: Option<McpFailure>,
}

impl Operation<'_> {
    fn write(&self, writer: &mut SpanWriter<'_>, span: Span<'_>) {
        let has_name = matches!(self.method, "tools/call" | "prompts/get");
        let status = if self.failure.is_some() { SpanStatus::Error } else { SpanStatus::Unset };
        let target = self.target.filter(|_| has_name);
        let span = Span { name: self.method, target, status, ..span };
        writer.write(&span, |attributes| self.add(attributes));
    }

    fn add(&self, attributes: &mut SpanAttributes<'_>) {
        attributes.add("mcp.method.name", self.method);
        match self.method {
            "tools/call" => {
                attributes.add("gen_ai.operation.name", "execute_tool");
                attributes.add_some("gen_ai.tool.name", self.target);
            }
            "prompts/get" => attributes.add_some("gen_ai.prompt.name", self.target),
            // The URI of a resource may contain secrets.
            _ => {}
        }
        attributes.add_some("jsonrpc.request.id", self.request_id);
        attributes.add_some("mcp.protocol.version", self.protocol_version);
        attributes.add_some("network.transport", self.transport);
        attributes.add_some("thruway.mcp.server", self.server);
        match self.failure {
            Some(McpFailure::Code(code)) => {
                let mut text = itoa::Buffer::new();
                let text = text.format(code);
                attributes.add("rpc.response.status_code", text);
                attributes.add("error.type", text);
            }
            Some(McpFailure::Tool) => attributes.add("error.type", "tool_error"),
            Some(McpFailure::Unanswered(reason)) => attributes.add("error.type", reason),
            None => {}
        }
    }
}
