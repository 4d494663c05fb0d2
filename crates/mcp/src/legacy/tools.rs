//! Output of tools that older revisions do not know.

use serde_json::Value;

use super::downgrade;
use crate::Revision;
use crate::schema::{CallToolResult, JsonObject, StructuredContent, Tool};

/// Takes the output schema away where no revision of this era knows it: they all want that of an object.
pub fn downgrade_tool(tool: &mut Tool) {
    let is_of_object = |schema: &JsonObject| schema.get("type").and_then(Value::as_str) == Some("object");
    tool.output_schema = tool.output_schema.take().filter(is_of_object);
}

/// Takes structured content away where `revision` does not know it, or wants an object; and [`downgrade`]s the content.
pub fn downgrade_result(result: &mut CallToolResult, revision: Revision) {
    downgrade(&mut result.content, revision);
    let is_known = |structured: &StructuredContent| {
        revision.has_structured_output() && structured.as_str().starts_with('{')
    };
    result.structured_content = result.structured_content.take().filter(is_known);
}
