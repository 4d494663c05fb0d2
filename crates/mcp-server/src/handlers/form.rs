//! Forms for the user that are generated from Rust types.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thruway_mcp::Revision;
use thruway_mcp::json_schema::CompiledSchema;
use thruway_mcp::schema::{
    ElicitAction, ElicitRequestFormParams, ElicitResult, EnumOption, JsonObject, PrimitiveSchemaDefinition,
};

use super::HandlerError;
use crate::json_schema;

/// A struct with the fields of a form. [`Context::elicit`](crate::Context::elicit) shows the form to the
/// user.
///
/// The [derive macro](derive@crate::ElicitForm) implements the trait, and checks the types of the fields at
/// compile time: see [`FormField`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a form",
    note = "write `#[derive(serde::Deserialize, schemars::JsonSchema, ElicitForm)]` above the struct"
)]
pub trait ElicitForm: DeserializeOwned + JsonSchema {}

/// A type of fields in forms: texts, numbers, `bool`, enums with `#[derive(ElicitForm)]`, `Option` of these
/// types, and `Vec` of enums.
///
/// Implement this trait for another type if its JSON Schema is a `string`, `number`, `integer` or `boolean`,
/// for example for a type that contains a valid email address.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a form",
    label = "not a text, number, `bool` or choice",
    note = "a form has no nested objects and no lists, except `Vec<T>` of an enum `T`",
    note = "write `#[derive(serde::Deserialize, schemars::JsonSchema, ElicitForm)]` above an enum"
)]
pub trait FormField: JsonSchema {}

/// An enum without data. `Vec` of this type is a choice of several options.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an option of a choice",
    note = "write `#[derive(serde::Deserialize, schemars::JsonSchema, ElicitForm)]` above an enum without data"
)]
pub trait FormChoice: FormField {}

macro_rules! fields {
    ($($kind:ty)*) => {$(impl FormField for $kind {})*};
}

fields!(String bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64);

impl<T: FormField> FormField for Option<T> {}

impl<T: FormChoice> FormField for Vec<T> {}

/// The user's response to a [form](ElicitForm).
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Elicited<T> {
    /// The user has filled in the form. The values match the schema of the form.
    Accepted(T),
    /// The user refuses to fill in the form.
    Declined,
    /// The user has closed the form without a decision.
    Cancelled,
}

impl<T> Elicited<T> {
    /// Returns the values of the form. Returns `None` if the user has not accepted the form.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(values) => Some(values),
            Self::Declined | Self::Cancelled => None,
        }
    }

    /// Returns the values of the form.
    ///
    /// # Errors
    /// Returns an error if the user has not accepted the form. In a tool, the call fails with the text of
    /// this error.
    pub fn or_fail(self) -> Result<T, HandlerError> {
        match self {
            Self::Accepted(values) => Ok(values),
            Self::Declined => Err(HandlerError::failed("the user has declined the form")),
            Self::Cancelled => Err(HandlerError::failed("the user has closed the form")),
        }
    }
}

/// A form in the format of one revision, and the schema of its values.
pub(super) struct TypedForm {
    pub(super) params: ElicitRequestFormParams,
    /// The schema of the type. It can have constraints that forms do not have, such as `pattern`.
    values: JsonObject,
}

/// Error: a field of a type cannot be a field of a form.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct InvalidForm {
    form: String,
    field: String,
    reason: &'static str,
}

impl TypedForm {
    /// Returns the form with the fields of `T`.
    ///
    /// # Errors
    /// Returns an error if the schema of a field is too complex for a form. The derive macro rejects most of
    /// such types, but it does not know the schemas of the fields.
    pub(super) fn of<T: ElicitForm>(message: String, revision: Revision) -> Result<Self, InvalidForm> {
        let values = json_schema::without_references::<T>();
        let mut params = ElicitRequestFormParams::new(message);
        let required = values.get("required").and_then(Value::as_array);
        for (name, schema) in values.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let invalid =
                |reason| InvalidForm { form: T::schema_name().into_owned(), field: name.clone(), reason };
            let field = schema.as_object().ok_or(TOO_COMPLEX).and_then(|schema| field(schema, revision));
            let field = field.map_err(invalid)?;
            let is_required = required.is_some_and(|required| required.iter().any(|other| other == name));
            params = if is_required {
                params.with_required_field(name, field)
            } else {
                params.with_field(name, field)
            };
        }
        Ok(Self { params, values })
    }

    /// Converts the client's answer.
    ///
    /// # Errors
    /// Returns an error if the values do not match the schema of `T`.
    pub(super) fn read<T: ElicitForm>(&self, answer: ElicitResult) -> Result<Elicited<T>, HandlerError> {
        match answer.action {
            ElicitAction::Accept => {}
            ElicitAction::Decline => return Ok(Elicited::Declined),
            ElicitAction::Cancel => return Ok(Elicited::Cancelled),
        }
        let compiled = CompiledSchema::compile_with_formats(&self.values).map_err(|error| {
            let form = T::schema_name();
            HandlerError::failed(format!("the schema of the form `{form}` is invalid: {}", error.0))
        })?;
        let invalid = |reason: &str| {
            HandlerError::failed(format!("the client's answer does not match the form: {reason}"))
        };
        let values = Value::Object(answer.content.unwrap_or_default());
        match compiled.violations(&values) {
            Some(violations) => Err(invalid(&violations)),
            None => {
                T::deserialize(values).map(Elicited::Accepted).map_err(|error| invalid(&error.to_string()))
            }
        }
    }
}

/// Converts the schema of a field to the subset of JSON Schema that forms allow.
fn field(schema: &JsonObject, revision: Revision) -> Result<PrimitiveSchemaDefinition, &'static str> {
    let schema = &without_null(schema);
    let text = |keyword| schema.get(keyword).and_then(Value::as_str);
    let count = |keyword| schema.get(keyword).and_then(Value::as_u64);
    let mut field = match (options(schema), text("type")) {
        (Some(options), _) => choice(options, revision),
        (None, Some("array")) => {
            if revision < Revision::R20251125 {
                return Err(
                    "a choice of several options needs a client with MCP revision 2025-11-25 or later",
                );
            }
            let items =
                schema.get("items").and_then(Value::as_object).and_then(options).ok_or(TOO_COMPLEX)?;
            let field = if has_titles(&items) {
                PrimitiveSchemaDefinition::several_of_titled(items)
            } else {
                PrimitiveSchemaDefinition::several_of(items.into_iter().map(|option| option.value))
            };
            PrimitiveSchemaDefinition { min_items: count("minItems"), max_items: count("maxItems"), ..field }
        }
        (None, Some(kind @ ("string" | "number" | "integer" | "boolean"))) => PrimitiveSchemaDefinition {
            r#type: kind.to_owned(),
            format: schema.get("format").and_then(|format| serde_json::from_value(format.clone()).ok()),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            minimum: schema.get("minimum").and_then(Value::as_f64),
            maximum: schema.get("maximum").and_then(Value::as_f64),
            ..PrimitiveSchemaDefinition::default()
        },
        _ => return Err(TOO_COMPLEX),
    };
    field.title = text("title").map(str::to_owned);
    field.description = text("description").map(str::to_owned);
    // Before MCP revision 2025-11-25, only a `boolean` has a default.
    if revision >= Revision::R20251125 || field.r#type == "boolean" {
        field.default = schema.get("default").filter(|default| !default.is_null()).cloned();
    }
    Ok(field)
}

fn choice(options: Vec<EnumOption>, revision: Revision) -> PrimitiveSchemaDefinition {
    match (has_titles(&options), revision >= Revision::R20251125) {
        (false, _) => PrimitiveSchemaDefinition::one_of(options.into_iter().map(|option| option.value)),
        (true, true) => PrimitiveSchemaDefinition::one_of_titled(options),
        (true, false) => PrimitiveSchemaDefinition::one_of_named(options),
    }
}

fn has_titles(options: &[EnumOption]) -> bool {
    options.iter().any(|option| option.title != option.value)
}

/// Returns the options of a choice. Returns `None` if the schema is not an enum of texts.
fn options(schema: &JsonObject) -> Option<Vec<EnumOption>> {
    if let Some(Value::String(value)) = schema.get("const") {
        let title = ["title", "description"].iter().find_map(|keyword| schema.get(*keyword)?.as_str());
        return Some(vec![EnumOption::new(value, title.unwrap_or(value))]);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .map(|value| value.as_str().map(|value| EnumOption::new(value, value)))
            .collect();
    }
    let mut all = Vec::new();
    for option in schema.get("oneOf")?.as_array()? {
        all.extend(options(option.as_object()?)?);
    }
    Some(all)
}

/// Returns the schema of an `Option<T>` as the schema of `T`. The user leaves such a field empty.
fn without_null(schema: &JsonObject) -> JsonObject {
    let mut schema = schema.clone();
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = &mut alternatives[..] {
            let only = std::mem::take(only);
            schema.shift_remove("anyOf");
            for (keyword, value) in only {
                schema.entry(keyword).or_insert(value);
            }
        }
    }
    schema
}

impl fmt::Display for InvalidForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot show the form `{}`: field `{}`: {}", self.form, self.field, self.reason)
    }
}

const TOO_COMPLEX: &str = "a form can have only texts, numbers, booleans and choices";

#[cfg(test)]
mod tests;
