//! Tools, and the structured content of their results.

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
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// What it is called by: best 1 to 128 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments, an object.
    pub input_schema: JsonObject,
    /// The JSON Schema of its structured content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonObject>,
    /// How it behaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// How it may be called (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// Pictures of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// How a tool says it behaves. Nothing a client should rely on.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// To call it twice is as to call it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches what is not under the server's control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// How a tool may be called (2025-11-25).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// Whether as a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

/// Whether a tool may be called as a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// Never.
    Forbidden,
    /// If the client wants it.
    Optional,
    /// Always.
    Required,
}

/// The tools there are.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListToolsResult {
    /// One page of them.
    pub tools: Vec<Tool>,
    /// Where the list goes on; absent at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A JSON value on one line, as it is written.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct StructuredContent(Box<RawValue>);

impl Tool {
    /// A tool without arguments and without a description.
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

    /// The same with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same with what it does.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same with a JSON Schema for its arguments.
    #[must_use]
    pub fn with_input_schema(mut self, schema: JsonObject) -> Self {
        self.input_schema = schema;
        self
    }

    /// The same with a JSON Schema for its structured content.
    #[must_use]
    pub fn with_output_schema(mut self, schema: JsonObject) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// The same with how it behaves.
    #[must_use]
    pub fn with_annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
        self
    }
}

impl StructuredContent {
    /// `value` as JSON.
    ///
    /// # Errors
    /// It cannot be written as JSON; a number is not finite, for instance. The error names the member.
    pub fn from_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let json = to_raw_value(value)?;
        // `serde_json` writes such a number as `null`, which the schema of a number forbids.
        if memmem::find(json.get().as_bytes(), b"null").is_some() {
            check_finite(value).map_err(ser::Error::custom)?;
        }
        // It may hold JSON that somebody else has written.
        Ok(Self(one_line(json)))
    }

    /// The JSON.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

/// Reads structured content where serde has taken the message apart before, as it does for enums whose
/// variants are told by a member: the text of the value is gone by then.
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
