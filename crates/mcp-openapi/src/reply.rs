//! Converts the responses of the API to results of tools.

use serde_json::Value;
use thruway_client::{ClientError, Response};
use thruway_mcp::schema::{CallToolResult, ContentBlock, StructuredContent};

/// Reads a response, and converts it to a result. A response that reports a failure becomes a failed result.
pub(crate) async fn result(response: Response, bytes_max: usize) -> CallToolResult {
    let status = response.status().as_u16();
    let media_type = response.field("content-type").and_then(|value| value.as_str().map(essence));
    let media_type = media_type.unwrap_or_default();
    let content = match response.collect(bytes_max).await {
        Ok(content) => content,
        Err(ClientError::ContentTooLarge) => {
            return CallToolResult::error(format!(
                "the response of the API is larger than {bytes_max} bytes"
            ));
        }
        Err(error) => return CallToolResult::error(format!("cannot read the response of the API: {error}")),
    };
    match status {
        200..=299 => success(status, &media_type, &content),
        300..=399 => CallToolResult::error(format!(
            "the API answered with a redirect ({status}), which is not followed"
        )),
        _ => CallToolResult::error(failure(status, &content)),
    }
}

fn essence(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn success(status: u16, media_type: &str, content: &[u8]) -> CallToolResult {
    if content.is_empty() {
        return CallToolResult::text(format!("the API answered with {status}, without content"));
    }
    if media_type.starts_with("image/") {
        let image = ContentBlock::image(content, media_type);
        return CallToolResult { content: vec![image], ..CallToolResult::default() };
    }
    let Ok(text) = str::from_utf8(content) else {
        let bytes = content.len();
        return CallToolResult::error(format!("the API answered with {bytes} bytes that are not a text"));
    };
    let mut result = CallToolResult::text(text);
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    // Up to MCP revision 2025-11-25, structured content must be an object.
    if is_json && let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(text) {
        result.structured_content = StructuredContent::from_value(&value).ok();
    }
    result
}

fn failure(status: u16, content: &[u8]) -> String {
    let text = String::from_utf8_lossy(content);
    let text = text.trim();
    match &text[..text.floor_char_boundary(FAILURE_BYTES_MAX)] {
        "" => format!("the API answered with the status {status}"),
        text => format!("the API answered with the status {status}: {text}"),
    }
}

/// Maximum length of the API's text in an error.
const FAILURE_BYTES_MAX: usize = 4096;
