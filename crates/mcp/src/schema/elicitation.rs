//! Elicitation: the server asks the client's user a question.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{JsonObject, MetaObject};

/// A form for the user.
///
/// ```
/// use thruway_mcp::schema::{ElicitRequestFormParams, PrimitiveSchemaDefinition};
///
/// let form = ElicitRequestFormParams::new("Where should the report go?")
///     .with_required_field("email", PrimitiveSchemaDefinition::string().with_title("Email address"))
///     .with_field("format", PrimitiveSchemaDefinition::one_of(["PDF", "HTML"]));
/// assert_eq!(form.requested_schema.required, ["email"]);
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitRequestFormParams {
    /// The mode (since MCP revision 2025-11-25). If the mode is absent, the client shows a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<FormMode>,
    /// The message for the user.
    pub message: String,
    /// The fields of the form.
    pub requested_schema: RequestedSchema,
}

/// The mode of a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormMode {
    /// A form.
    Form,
}

/// A request that the user visits a web page with a question (since MCP revision 2025-11-25).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "mode", rename = "url", rename_all = "camelCase")]
pub struct ElicitRequestURLParams {
    /// The message for the user.
    pub message: String,
    /// The URL of the page.
    pub url: String,
    /// The id that the server gave the elicitation. Required in MCP revision 2025-11-25, absent in other
    /// revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

/// The schema of a form: an object without nested objects.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename = "object")]
pub struct RequestedSchema {
    /// The dialect of JSON Schema (since MCP revision 2025-11-25).
    #[serde(default, rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The fields of the form, in order. Each value is a [`PrimitiveSchemaDefinition`] as JSON.
    pub properties: JsonObject,
    /// The names of the required fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
}

/// A field of a form.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimitiveSchemaDefinition {
    /// The type: `string`, `number`, `integer`, `boolean`, or `array` for a multiple choice.
    pub r#type: String,
    /// The label of the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The initial value of the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// The format of a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<StringFormat>,
    /// Minimum length of a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// Maximum length of a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// Minimum of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// Maximum of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// The options of a single choice.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The titles of the options in `enum` (deprecated).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enum_names: Vec<String>,
    /// The options of a single choice, with titles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<EnumOption>,
    /// The options of a multiple choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<EnumSchemaItems>,
    /// Minimum number of selected options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    /// Maximum number of selected options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
}

/// The format of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StringFormat {
    /// A date.
    Date,
    /// A date and a time.
    DateTime,
    /// An email address.
    Email,
    /// A URI.
    Uri,
}

/// An option of a choice, with a title.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnumOption {
    /// The value that the client sends.
    #[serde(rename = "const")]
    pub value: String,
    /// The title that the client shows.
    pub title: String,
}

/// The options of a multiple choice.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnumSchemaItems {
    /// The type of the options: `string` if the options have no titles, otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// Options without titles.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Options with titles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<EnumOption>,
}

/// A question to the user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ElicitRequestParams {
    /// A form.
    Form(ElicitRequestFormParams),
    /// A web page (since MCP revision 2025-11-25).
    Url(ElicitRequestURLParams),
}

/// A server's request that the client asks its user a question, without the JSON-RPC envelope.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ElicitRequest {
    /// The question.
    pub params: ElicitRequestParams,
}

/// The user's response to a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ElicitResult {
    /// The user's decision.
    pub action: ElicitAction,
    /// The values of the form's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<JsonObject>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The user's decision about a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// The user accepts and answers the question.
    Accept,
    /// The user refuses to answer the question.
    Decline,
    /// The user closes the question without a decision.
    Cancel,
}

impl ElicitResult {
    /// Returns the value of the field `name`, or `None` if the response has no such field.
    pub fn field(&self, name: &str) -> Option<&serde_json::Value> {
        self.content.as_ref()?.get(name)
    }

    /// Returns the text of the field `name`, or an empty string if the response has no such text.
    pub fn text(&self, name: &str) -> &str {
        self.field(name).and_then(serde_json::Value::as_str).unwrap_or_default()
    }
}

impl ElicitAction {
    /// Returns the name of the decision: `accept`, `decline` or `cancel`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl EnumOption {
    /// Returns the option `value` with the title `title`.
    pub fn new(value: impl Into<String>, title: impl Into<String>) -> Self {
        Self { value: value.into(), title: title.into() }
    }
}

impl ElicitRequestFormParams {
    /// Returns a form without fields.
    pub fn new(message: impl Into<String>) -> Self {
        let requested_schema =
            RequestedSchema { dialect: None, properties: JsonObject::new(), required: Vec::new() };
        Self { mode: None, message: message.into(), requested_schema }
    }

    /// Adds an optional field to the form.
    #[must_use]
    pub fn with_field(mut self, name: impl Into<String>, field: PrimitiveSchemaDefinition) -> Self {
        // This cannot fail, because a field contains only plain data.
        let field = serde_json::to_value(field).unwrap_or_default();
        self.requested_schema.properties.insert(name.into(), field);
        self
    }

    /// Adds a required field to the form.
    #[must_use]
    pub fn with_required_field(mut self, name: impl Into<String>, field: PrimitiveSchemaDefinition) -> Self {
        let name = name.into();
        self.requested_schema.required.push(name.clone());
        self.with_field(name, field)
    }
}

impl PrimitiveSchemaDefinition {
    /// Returns a text field.
    pub fn string() -> Self {
        Self { r#type: "string".into(), ..Self::default() }
    }

    /// Returns a number field.
    pub fn number() -> Self {
        Self { r#type: "number".into(), ..Self::default() }
    }

    /// Returns an integer field.
    pub fn integer() -> Self {
        Self { r#type: "integer".into(), ..Self::default() }
    }

    /// Returns a yes/no field.
    pub fn boolean() -> Self {
        Self { r#type: "boolean".into(), ..Self::default() }
    }

    /// Returns a field for a single choice.
    pub fn one_of<T: Into<String>>(options: impl IntoIterator<Item = T>) -> Self {
        Self { options: options.into_iter().map(Into::into).collect(), ..Self::string() }
    }

    /// Returns a field for a single choice between titled options (since MCP revision 2025-11-25).
    pub fn one_of_titled(options: impl IntoIterator<Item = EnumOption>) -> Self {
        Self { one_of: options.into_iter().collect(), ..Self::string() }
    }

    /// Returns a field for a single choice between titled options, in the format of `enumNames`. Clients
    /// of all revisions support this format, but it is deprecated.
    pub fn one_of_named(options: impl IntoIterator<Item = EnumOption>) -> Self {
        let (options, enum_names) = options.into_iter().map(|option| (option.value, option.title)).unzip();
        Self { options, enum_names, ..Self::string() }
    }

    /// Returns a field for a multiple choice (since MCP revision 2025-11-25).
    pub fn several_of<T: Into<String>>(options: impl IntoIterator<Item = T>) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self::array(EnumSchemaItems { r#type: Some("string".into()), options, ..EnumSchemaItems::default() })
    }

    /// Returns a field for a multiple choice between titled options (since MCP revision 2025-11-25).
    pub fn several_of_titled(options: impl IntoIterator<Item = EnumOption>) -> Self {
        Self::array(EnumSchemaItems { any_of: options.into_iter().collect(), ..EnumSchemaItems::default() })
    }

    fn array(items: EnumSchemaItems) -> Self {
        Self { r#type: "array".into(), items: Some(items), ..Self::default() }
    }

    /// Sets the label of the field.
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

    /// Sets the initial value of the field.
    #[must_use]
    pub fn with_default(mut self, default: impl Into<serde_json::Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}
