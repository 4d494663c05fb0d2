//! Reads the types of results, and provides a fast path for tool results.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::result::ResultType;
use crate::json_rpc::{Id, read_result};
use crate::schema::{CallToolResult, ContentBlock, StructuredContent, ToolResultMeta, content_blocks};

/// Error: a result has an unknown type or is not an object. A client must not use such a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownResultType;

/// Returns the type of `result`. A result without a type is complete, because legacy servers do not send
/// types.
///
/// # Errors
/// See [`UnknownResultType`].
pub fn result_type(result: &RawValue) -> Result<ResultType, UnknownResultType> {
    if !result.get().starts_with('{') {
        return Err(UnknownResultType);
    }
    let typed: TypedResult<'_> = serde_json::from_str(result.get()).map_err(|_| UnknownResultType)?;
    match typed.result_type.as_deref() {
        None | Some("complete") => Ok(ResultType::Complete),
        Some("input_required") => Ok(ResultType::InputRequired),
        Some("task") => Ok(ResultType::Task),
        Some(_) => Err(UnknownResultType),
    }
}

#[derive(Deserialize)]
struct TypedResult<'a> {
    #[serde(borrow, default, rename = "resultType")]
    result_type: Option<Cow<'a, str>>,
}

/// Parses the answer to request `id` and its tool result in one pass. Returns `None` if `bytes` is not a
/// complete tool result for this request. The caller should then use [`parse`](crate::json_rpc::parse)
/// and [`result_type`](super::result_type).
pub fn read_tool_result(bytes: &[u8], id: &Id<'_>) -> Option<CallToolResult> {
    let Complete { content, structured_content, is_error, meta, .. } = read_result(bytes, id)?;
    Some(CallToolResult { content, structured_content, is_error, meta })
}

/// The members of [`CallToolResult`], and the members that only other types of results have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Complete {
    #[serde(default, deserialize_with = "content_blocks")]
    content: Vec<ContentBlock>,
    #[serde(default)]
    structured_content: Option<StructuredContent>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default, rename = "_meta")]
    meta: Option<ToolResultMeta>,
    #[expect(dead_code, reason = "deserialization fails for any other value")]
    #[serde(default)]
    result_type: Option<IsComplete>,
    /// Only a task of MCP revision 2025-11-25 has this member.
    #[expect(dead_code, reason = "deserialization fails for each value")]
    #[serde(default)]
    task: Option<Nothing>,
}

#[derive(Deserialize)]
enum IsComplete {
    #[serde(rename = "complete")]
    Complete,
}

#[derive(Deserialize)]
enum Nothing {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn read(result: &str) -> Option<CallToolResult> {
        let message = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
        read_tool_result(message.as_bytes(), &Id::Integer(7))
    }

    #[test]
    fn complete_tool_results_take_the_fast_path() {
        let text = CallToolResult::text("a");
        let content = r#""content":[{"type":"text","text":"a"}]"#;
        for result_type in ["", r#""resultType":"complete","#, r#""resultType":null,"task":null,"other":[],"#]
        {
            assert_eq!(read(&format!("{{{result_type}{content}}}")), Some(text.clone()), "{result_type}");
        }
    }

    #[test]
    fn other_results_do_not_take_the_fast_path() {
        for result in [
            r#"{"resultType":"input_required","content":[]}"#,
            r#"{"resultType":"task","content":[]}"#,
            r#"{"resultType":"complete","result\u0054ype":"task"}"#,
            r#"{"task":{"taskId":"1"}}"#,
            r#"{"content":[{"type":"other"}]}"#,
            "[[]]",
            "null",
        ] {
            assert_eq!(read(result), None, "{result}");
        }
    }
}
