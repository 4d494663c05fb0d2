//! The legacy era, up to 2025-11-25: a handshake, then a session.
//!
//! A session is in one revision. What that revision does not know is taken out of results, or replaced.

#[cfg(test)]
mod tests;

use alloc::format;

use serde_json::Value;

use crate::revision::{Era, Revision};
use crate::schema::{CallToolResult, ContentBlock, JsonObject, StructuredContent, Tool};

/// The revision of a session whose client wants `requested`: that one if it is known and of this era,
/// otherwise the latest of this era, which the client may then turn down.
pub fn negotiate(requested: &str) -> Revision {
    requested
        .parse()
        .ok()
        .filter(|revision: &Revision| revision.era() == Era::Legacy)
        .unwrap_or(Revision::LATEST_LEGACY)
}

/// Replaces content that `revision` has no type for by text that says what it was.
pub fn downgrade(content: &mut [ContentBlock], revision: Revision) {
    for block in content {
        let replacement = match block {
            ContentBlock::Audio(audio) if !revision.has_audio() => format!("[audio, {}]", audio.mime_type),
            ContentBlock::ResourceLink(link) if !revision.has_structured_output() => {
                format!("[resource {}]", link.uri)
            }
            _ => continue,
        };
        *block = ContentBlock::text(replacement);
    }
}

/// Takes the output schema away where no revision of this era knows it: they all want that of an object.
pub fn downgrade_tool(tool: &mut Tool) {
    let is_of_object = |schema: &JsonObject| schema.get("type").and_then(Value::as_str) == Some("object");
    tool.output_schema = tool.output_schema.take().filter(is_of_object);
}

/// Takes structured content away where `revision` does not know it, or wants an object; and [`downgrade`]s
/// the content.
pub fn downgrade_result(result: &mut CallToolResult, revision: Revision) {
    downgrade(&mut result.content, revision);
    let is_known = |structured: &StructuredContent| {
        revision.has_structured_output() && structured.as_str().starts_with('{')
    };
    result.structured_content = result.structured_content.take().filter(is_known);
}
