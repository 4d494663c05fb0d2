//! The legacy era, up to MCP revision 2025-11-25: a handshake begins a session.
//!
//! Each session has one revision. This module adapts results to that revision: it removes or replaces the
//! parts that the revision does not define.

#[cfg(test)]
mod tests;

use alloc::format;

use serde_json::Value;

use crate::revision::{Era, Revision};
use crate::schema::{CallToolResult, ContentBlock, JsonObject, StructuredContent, Tool};

/// Returns the revision for a new session. `requested` is the revision that the client requests. Returns
/// this revision if it belongs to the legacy era, otherwise the latest legacy revision. The client may
/// reject a revision that it did not request.
pub fn negotiate(requested: &str) -> Revision {
    requested
        .parse()
        .ok()
        .filter(|revision: &Revision| revision.era() == Era::Legacy)
        .unwrap_or(Revision::LATEST_LEGACY)
}

/// Replaces each content block of a type that `revision` does not define with a short text about the
/// block.
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

/// Removes the output schema of `tool` if the schema's type is not `object`. All legacy revisions require
/// the type `object`.
pub fn downgrade_tool(tool: &mut Tool) {
    let is_of_object = |schema: &JsonObject| schema.get("type").and_then(Value::as_str) == Some("object");
    tool.output_schema = tool.output_schema.take().filter(is_of_object);
}

/// Adapts a tool result to `revision`. Removes structured content if `revision` does not define structured
/// content, or if the structured content is not an object. Also applies [`downgrade`] to the other content.
pub fn downgrade_result(result: &mut CallToolResult, revision: Revision) {
    downgrade(&mut result.content, revision);
    let is_known = |structured: &StructuredContent| {
        revision.has_structured_output() && structured.as_str().starts_with('{')
    };
    result.structured_content = result.structured_content.take().filter(is_known);
}
