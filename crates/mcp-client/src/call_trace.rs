//! Trace contexts and spans of requests (W3C Trace Context).

use serde::Deserialize;
use serde_json::Value;
use thruway_mcp::members::append_member;
use thruway_mcp::params::meta_keys;
use thruway_mcp::schema::{MetaObject, methods};
use thruway_mcp::traced_call::{CallFailure, CallSpan, TraceContext};
use thruway_message::FieldLinesBuf;

use super::error::McpClientError;
use super::reading::Answer;

/// Records the outcome of a request in its span.
pub(super) fn note_outcome(span: &mut dyn CallSpan, method: &str, outcome: &Result<Answer, McpClientError>) {
    match outcome {
        Ok(answer) if method == methods::TOOLS_CALL && is_tool_error(answer.get()) => {
            span.fail(CallFailure::Tool);
        }
        Ok(_) => {}
        Err(McpClientError::Server(error)) => span.fail(CallFailure::Code(error.code.0)),
        Err(error) => span.fail(CallFailure::Unanswered(error_type(error))),
    }
}

/// Returns `true` if a result reports the error of a tool.
fn is_tool_error(result: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult {
        is_error: Option<bool>,
    }
    // A search in the text is faster than a parser, and most results have no such member.
    result.contains("rror\"")
        && serde_json::from_str(result).is_ok_and(|result: ToolResult| result.is_error == Some(true))
}

/// Returns the value of the attribute `error.type`, which has few different values.
const fn error_type(error: &McpClientError) -> &'static str {
    match error {
        McpClientError::TimedOut => "timeout",
        McpClientError::Closed => "connection_closed",
        McpClientError::SessionEnded => "session_ended",
        McpClientError::Authorization(_) => "authorization_failed",
        McpClientError::Http(_) => "http_failed",
        McpClientError::Status(_) => "http_status",
        McpClientError::Start(_) | McpClientError::TooManyRestarts => "start_failed",
        _ => "invalid_answer",
    }
}

/// Appends the members of a trace context. Only the state can contain characters that JSON escapes.
pub(super) fn append_trace(members: &mut Vec<u8>, trace: &TraceContext) {
    append_member(members, meta_keys::TRACE_PARENT, &format!("\"{}\"", trace.parent));
    if !trace.state.is_empty() {
        let state = Value::from(&*trace.state).to_string();
        append_member(members, meta_keys::TRACE_STATE, &state);
    }
}

/// Appends the headers of a trace context, which only a server over HTTP gets.
pub(super) fn append_trace_fields(field_lines: &mut FieldLinesBuf, trace: &TraceContext) {
    // The values are valid: they come from other headers, or were checked by the rules of W3C Trace Context.
    let _ = field_lines.append(meta_keys::TRACE_PARENT, &*trace.parent);
    if !trace.state.is_empty() {
        let _ = field_lines.append(meta_keys::TRACE_STATE, &*trace.state);
    }
}

/// Appends the trace context in `meta` as headers, if `meta` has one. Ignores values that no header can contain.
pub(super) fn append_meta_fields(field_lines: &mut FieldLinesBuf, meta: Option<&MetaObject>) {
    for name in [meta_keys::TRACE_PARENT, meta_keys::TRACE_STATE] {
        if let Some(value) = meta.and_then(|meta| meta.get(name)?.as_str()) {
            let _ = field_lines.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_true_is_error_member_of_the_result_is_a_tool_error() {
        for (result, expected) in [
            (r#"{"isError":true}"#, true),
            (r#"{"content":[], "isError" : true}"#, true),
            (r#"{"isError":false}"#, false),
            (r#"{"content":[{"isError":true}]}"#, false),
            (r#"{"content":[]}"#, false),
        ] {
            assert_eq!(is_tool_error(result), expected, "{result}");
        }
    }
}
