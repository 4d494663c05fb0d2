//! The legacy era, up to 2025-11-25: a handshake, then a session.
//!
//! Each session has one revision. This module removes or replaces parts of results that the revision does not
//! define.

#[cfg(test)]
mod tests;

use alloc::format;

use serde_json::Value;

use crate::revision::{Era, Revision};
use crate::schema::{CallToolResult, ContentBlock, JsonObject, StructuredContent, Tool};

/// Returns the revision of a session for a client that requests `requested`: the same revision if it belongs
/// to this era, otherwise the latest one. The client may then reject the latest one.
pub fn negotiate(requested: &str) -> Revision {
    requested
        .parse()
        .ok()
        .filter(|revision: &Revision| revision.era() == Era::Legacy)
        .unwrap_or(Revision::LATEST_LEGACY)
}

/// Replaces content types that `revision` does not define with a text description.
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

/// Removes the output schema if its type is not `object`, because all revisions of this era require that
/// type.
pub fn downgrade_tool(tool: &mut Tool) {
    let is_of_object = |schema: &JsonObject| schema.get("type").and_then(Value::as_str) == Some("object");
    tool.output_schema = tool.output_schema.take().filter(is_of_object);
}

/// Removes structured content if `revision` does not define it or requires an object. Also applies
/// [`downgrade`] to the content.
pub fn downgrade_result(result: &mut CallToolResult, revision: Revision) {
    downgrade(&mut result.content, revision);
    let is_known = |structured: &StructuredContent| {
        revision.has_structured_output() && structured.as_str().starts_with('{')
    };
    result.structured_content = result.structured_content.take().filter(is_known);
}
