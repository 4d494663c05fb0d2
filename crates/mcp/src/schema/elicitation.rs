//! Asking the user.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{JsonObject, MetaObject};

/// A form for the user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitRequestFormParams {
    /// That it is a form, which is so as well where it is not said (from 2025-11-25 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<FormMode>,
    /// What the user is told.
    pub message: String,
    /// What the form asks for.
    pub requested_schema: RequestedSchema,
}

/// That the user is asked by a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormMode {
    /// It is.
    Form,
}

/// A page for the user to visit (from 2025-11-25 on).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "mode", rename = "url", rename_all = "camelCase")]
pub struct ElicitRequestURLParams {
    /// What the user is told.
    pub message: String,
    /// Where the page is.
    pub url: String,
    /// What the server calls this (2025-11-25 only, and needed there).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

/// What a form asks for: an object without objects in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename = "object")]
pub struct RequestedSchema {
    /// The dialect of JSON Schema it is in (from 2025-11-25 on).
    #[serde(default, rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The fields, each a [`PrimitiveSchemaDefinition`] as JSON, in their order.
    pub properties: JsonObject,
    /// Which must be filled in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
}

/// A field of a form.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimitiveSchemaDefinition {
    /// `string`, `number`, `integer`, `boolean`, or `array` for several of a choice.
    pub r#type: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What stands in it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// The form of a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<StringFormat>,
    /// The shortest string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// The longest string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// The least number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// The greatest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// A choice of one.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What the options of `enum` are called (the old way).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enum_names: Vec<String>,
    /// A choice of one, with titles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<EnumOption>,
    /// A choice of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<EnumSchemaItems>,
    /// At least how many of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    /// At most how many of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
}

/// The form of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StringFormat {
    /// A date.
    Date,
    /// A date and a time.
    DateTime,
    /// An address of mail.
    Email,
    /// A URI.
    Uri,
}

/// What can be chosen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnumOption {
    /// What is sent.
    #[serde(rename = "const")]
    pub value: String,
    /// What is shown.
    pub title: String,
}

/// What several can be chosen of.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnumSchemaItems {
    /// `string`, where the options have no titles.
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
    /// A page (from 2025-11-25 on).
    Url(ElicitRequestURLParams),
}

/// A request to ask the user, without what its envelope has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ElicitRequest {
    /// The question.
    pub params: ElicitRequestParams,
}

/// What the user did.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ElicitResult {
    /// What.
    pub action: ElicitAction,
    /// What was filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<JsonObject>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a user does with a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Answers it.
    Accept,
    /// Says no.
    Decline,
    /// Closes it.
    Cancel,
}

impl ElicitResult {
    /// What was filled into a field.
    pub fn field(&self, name: &str) -> Option<&serde_json::Value> {
        self.content.as_ref()?.get(name)
    }

    /// The text that was filled into a field; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.field(name).and_then(serde_json::Value::as_str).unwrap_or_default()
    }
}

impl ElicitAction {
    /// The name of it: `accept`, `decline` or `cancel`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl EnumOption {
    /// `value`, shown as `title`.
    pub fn new(value: impl Into<String>, title: impl Into<String>) -> Self {
        Self { value: value.into(), title: title.into() }
    }
}

impl ElicitRequestFormParams {
    /// A form without fields.
    pub fn new(message: impl Into<String>) -> Self {
        let requested_schema =
            RequestedSchema { dialect: None, properties: JsonObject::new(), required: Vec::new() };
        Self { mode: None, message: message.into(), requested_schema }
    }

    /// The same with a field that may be left empty.
    #[must_use]
    pub fn with_field(mut self, name: impl Into<String>, field: PrimitiveSchemaDefinition) -> Self {
        // Plain data.
        let field = serde_json::to_value(field).unwrap_or_default();
        self.requested_schema.properties.insert(name.into(), field);
        self
    }

    /// The same with a field that must be filled in.
    #[must_use]
    pub fn with_required_field(mut self, name: impl Into<String>, field: PrimitiveSchemaDefinition) -> Self {
        let name = name.into();
        self.requested_schema.required.push(name.clone());
        self.with_field(name, field)
    }
}

impl PrimitiveSchemaDefinition {
    /// Text.
    pub fn string() -> Self {
        Self { r#type: "string".into(), ..Self::default() }
    }

    /// A number.
    pub fn number() -> Self {
        Self { r#type: "number".into(), ..Self::default() }
    }

    /// A whole number.
    pub fn integer() -> Self {
        Self { r#type: "integer".into(), ..Self::default() }
    }

    /// Yes or no.
    pub fn boolean() -> Self {
        Self { r#type: "boolean".into(), ..Self::default() }
    }

    /// One of several.
    pub fn one_of<T: Into<String>>(options: impl IntoIterator<Item = T>) -> Self {
        Self { options: options.into_iter().map(Into::into).collect(), ..Self::string() }
    }

    /// One of several that have titles (from 2025-11-25 on).
    pub fn one_of_titled(options: impl IntoIterator<Item = EnumOption>) -> Self {
        Self { one_of: options.into_iter().collect(), ..Self::string() }
    }

    /// One of several that have titles, in the way that clients of all revisions understand and that will be
    /// gone one day (`enumNames`).
    pub fn one_of_named(options: impl IntoIterator<Item = EnumOption>) -> Self {
        let (options, enum_names) = options.into_iter().map(|option| (option.value, option.title)).unzip();
        Self { options, enum_names, ..Self::string() }
    }

    /// Any of several (from 2025-11-25 on).
    pub fn several_of<T: Into<String>>(options: impl IntoIterator<Item = T>) -> Self {
        let options = options.into_iter().map(Into::into).collect();
        Self::array(EnumSchemaItems { r#type: Some("string".into()), options, ..EnumSchemaItems::default() })
    }

    /// Any of several that have titles (from 2025-11-25 on).
    pub fn several_of_titled(options: impl IntoIterator<Item = EnumOption>) -> Self {
        Self::array(EnumSchemaItems { any_of: options.into_iter().collect(), ..EnumSchemaItems::default() })
    }

    fn array(items: EnumSchemaItems) -> Self {
        Self { r#type: "array".into(), items: Some(items), ..Self::default() }
    }

    /// The same with a name.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same with what it is.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same with what stands in it before.
    #[must_use]
    pub fn with_default(mut self, default: impl Into<serde_json::Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}
