//! Plain return types of tools, such as numbers, lists and structs.

use schemars::JsonSchema;
use serde::Serialize;
use thruway_mcp::schema::{CallToolResult, JsonObject, StructuredContent};

use super::{HandlerError, IntoAnswer};
use crate::json_schema;

/// A tool result with structured content in all revisions of the protocol. Up to MCP revision 2025-11-25,
/// structured content must be an object. If the JSON Schema of `T` is not of type `object`, the structured
/// content is therefore an object with the member `result`. The result also contains `T` as text, without
/// this object.
pub struct Typed<T>(pub T);

impl<T: Serialize + JsonSchema> IntoAnswer<CallToolResult> for Typed<T> {
    fn output_schema() -> Option<JsonObject> {
        Some(json_schema::of_result::<T>())
    }

    fn is_wrapped() -> bool {
        !json_schema::is_object::<T>()
    }

    /// Returns the structured content without the object around it. The tool entry adds the object, because
    /// it knows without a new schema whether the object is needed.
    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        let structured = StructuredContent::from_value(&self.0).map_err(|error| {
            HandlerError::failed(format!("the server cannot write the tool's result as JSON: {error}"))
        })?;
        let json = structured.as_str();
        let text = if json.starts_with('"') { serde_json::from_str(json).ok() } else { None };
        let mut result = CallToolResult::text(text.unwrap_or_else(|| json.to_owned()));
        result.structured_content = Some(structured);
        Ok(result)
    }
}

/// Implements [`IntoAnswer`] for types that are not objects.
macro_rules! plain {
    ($($kind:ty)*) => {
        $(impl IntoAnswer<CallToolResult> for $kind {
            fn output_schema() -> Option<JsonObject> {
                Typed::<Self>::output_schema()
            }

            fn is_wrapped() -> bool {
                true
            }

            fn into_answer(self) -> Result<CallToolResult, HandlerError> {
                Typed(self).into_answer()
            }
        })*
    };
}

plain!(bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64);
