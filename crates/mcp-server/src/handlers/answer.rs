//! Return types of handlers, and their conversion to answers.

use schemars::JsonSchema;
use serde::Serialize;
use thruway_mcp::schema::{
    CallToolResult, ContentBlock, GetPromptResult, JsonObject, PromptMessage, ReadResourceResult,
    StructuredContent,
};

use super::HandlerError;
use crate::json_schema;

/// A return type of handlers that can be converted to an answer of type `O`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an answer: it does not convert to `{O}`",
    note = "a tool with `#[tool]` can return any type that implements `serde::Serialize` and \
            `schemars::JsonSchema`",
    note = "other handlers can return `Structured<T>` for such a type, or a `String`; both can be in a `Result`"
)]
pub trait IntoAnswer<O> {
    /// Returns the JSON Schema of the answer, if the return type has a schema.
    fn output_schema() -> Option<JsonObject> {
        None
    }

    /// Returns `true` if the server puts the structured content of the answer into an object, as
    /// `{"result": …}`.
    #[doc(hidden)]
    fn is_wrapped() -> bool {
        false
    }

    /// Converts the value to the answer.
    ///
    /// # Errors
    /// Returns an error if the value is an error, or if the value cannot be written as JSON.
    fn into_answer(self) -> Result<O, HandlerError>;
}

/// A tool result with structured content. The result contains `T` as JSON. For clients that do not support
/// structured content, the result also contains the same JSON as text. The schema of `T` becomes the output
/// schema of the tool.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use thruway_mcp_server::{McpServer, Structured, schema::Tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Text {
///     text: String,
/// }
///
/// #[derive(Serialize, JsonSchema)]
/// struct Count {
///     words: usize,
/// }
///
/// let count = |Text { text }: Text| Structured(Count { words: text.split_whitespace().count() });
/// let server = McpServer::new("counter", "1.0.0").tool(Tool::new("count_words"), count);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Structured<T>(pub T);

impl<O, T: IntoAnswer<O>, E: Into<HandlerError>> IntoAnswer<O> for Result<T, E> {
    fn output_schema() -> Option<JsonObject> {
        T::output_schema()
    }

    fn is_wrapped() -> bool {
        T::is_wrapped()
    }

    fn into_answer(self) -> Result<O, HandlerError> {
        self.map_err(Into::into)?.into_answer()
    }
}

impl<T: Serialize + JsonSchema> IntoAnswer<CallToolResult> for Structured<T> {
    fn output_schema() -> Option<JsonObject> {
        Some(json_schema::of::<T>())
    }

    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        let structured = StructuredContent::from_value(&self.0).map_err(|error| {
            HandlerError::failed(format!("the server cannot write the tool's result as JSON: {error}"))
        })?;
        let mut result = CallToolResult::text(structured.as_str());
        result.structured_content = Some(structured);
        Ok(result)
    }
}

impl IntoAnswer<Self> for CallToolResult {
    fn into_answer(self) -> Result<Self, HandlerError> {
        Ok(self)
    }
}

impl IntoAnswer<CallToolResult> for Vec<ContentBlock> {
    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult { content: self, ..CallToolResult::default() })
    }
}

impl IntoAnswer<CallToolResult> for ContentBlock {
    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        vec![self].into_answer()
    }
}

impl IntoAnswer<CallToolResult> for String {
    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult::text(self))
    }
}

impl IntoAnswer<CallToolResult> for &'static str {
    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult::text(self))
    }
}

impl IntoAnswer<CallToolResult> for () {
    fn into_answer(self) -> Result<CallToolResult, HandlerError> {
        Ok(CallToolResult::default())
    }
}

impl IntoAnswer<Self> for GetPromptResult {
    fn into_answer(self) -> Result<Self, HandlerError> {
        Ok(self)
    }
}

impl IntoAnswer<GetPromptResult> for Vec<PromptMessage> {
    fn into_answer(self) -> Result<GetPromptResult, HandlerError> {
        Ok(GetPromptResult { messages: self, ..GetPromptResult::default() })
    }
}

impl IntoAnswer<GetPromptResult> for PromptMessage {
    fn into_answer(self) -> Result<GetPromptResult, HandlerError> {
        vec![self].into_answer()
    }
}

/// The text becomes one message with the role `user`.
impl IntoAnswer<GetPromptResult> for String {
    fn into_answer(self) -> Result<GetPromptResult, HandlerError> {
        PromptMessage::user(ContentBlock::text(self)).into_answer()
    }
}

/// The text becomes one message with the role `user`.
impl IntoAnswer<GetPromptResult> for &'static str {
    fn into_answer(self) -> Result<GetPromptResult, HandlerError> {
        self.to_owned().into_answer()
    }
}

impl IntoAnswer<Self> for ReadResourceResult {
    fn into_answer(self) -> Result<Self, HandlerError> {
        Ok(self)
    }
}
