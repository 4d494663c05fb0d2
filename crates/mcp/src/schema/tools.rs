//! Tools and their structured results.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memmem;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, ser};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::implementation::Icon;
use super::meta::{JsonObject, MetaObject};
use crate::finite::check_finite;
use crate::members::one_line;

/// A tool.
///
/// ```
/// use thruway_mcp::schema::{Tool, ToolAnnotations};
///
/// let hints = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
/// let tool = Tool::new("search").with_description("Searches all files for a text.").with_annotations(hints);
/// assert_eq!(tool.name, "search");
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The unique name. The specification recommends 1 to 128 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments, which are a JSON object.
    pub input_schema: JsonObject,
    /// The JSON Schema of the structured content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonObject>,
    /// Hints about the tool's behavior.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// The supported ways to call the tool (MCP revision 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// Icons for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Hints about the behavior of a tool. A client must not rely on hints.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `true` if the tool does not change anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// `true` if the tool may destroy data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// `true` if repeating a call has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// `true` if the tool accesses systems outside of the server's control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// The supported ways to call a tool (MCP revision 2025-11-25).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// Support for running a call as a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

/// Support for running a call as a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// Calls of the tool never run as tasks.
    Forbidden,
    /// The client decides whether the call runs as a task.
    Optional,
    /// Every call of the tool runs as a task.
    Required,
}

/// A page of the list of tools.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListToolsResult {
    /// The tools of the page.
    pub tools: Vec<Tool>,
    /// The cursor of the next page, absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A JSON value, kept as text on one line.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct StructuredContent(Box<RawValue>);

impl Tool {
    /// Returns a tool without arguments and without a description.
    pub fn new(name: impl Into<String>) -> Self {
        let mut input_schema = JsonObject::new();
        input_schema.insert("type".into(), "object".into());
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
            execution: None,
            icons: Vec::new(),
            meta: None,
        }
    }

    /// Sets the display name.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the JSON Schema of the arguments.
    #[must_use]
    pub fn with_input_schema(mut self, schema: JsonObject) -> Self {
        self.input_schema = schema;
        self
    }

    /// Sets the JSON Schema of the structured content.
    #[must_use]
    pub fn with_output_schema(mut self, schema: JsonObject) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Sets the hints about the tool's behavior.
    #[must_use]
    pub fn with_annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
        self
    }
}

impl StructuredContent {
    /// Converts `value` to JSON.
    ///
    /// # Errors
    /// The value cannot be written as JSON, for example because it contains a number that is not finite.
    /// For such a number, the error names the member.
    pub fn from_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let json = to_raw_value(value)?;
        // `serde_json` writes a number that is not finite as `null`, but a schema of type `number`
        // forbids `null`.
        if memmem::find(json.get().as_bytes(), b"null").is_some() {
            check_finite(value).map_err(ser::Error::custom)?;
        }
        // The value may contain raw JSON from another program, which may contain line ends.
        Ok(Self(one_line(json)))
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

/// Reads structured content inside of an internally tagged enum. For such enums, serde parses the content
/// before it calls this function, so the original text of the value is lost.
pub(super) fn structured_content<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<StructuredContent>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    StructuredContent::from_value(&value).map(Some).map_err(de::Error::custom)
}

impl<'de> Deserialize<'de> for StructuredContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(one_line).map(Self)
    }
}

impl PartialEq for StructuredContent {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
