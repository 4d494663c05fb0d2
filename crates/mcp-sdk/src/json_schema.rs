//! JSON Schemas of Rust types, and checks against them.

use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use thruway_mcp::schema::JsonObject;

/// The schema of `T` in the dialect of 2020-12, which is that of MCP.
pub(crate) fn of<T: JsonSchema + ?Sized>() -> JsonObject {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    match Value::from(schema) {
        Value::Object(object) => object,
        // `true` or `false`, which hold or do not hold for anything.
        other => JsonObject::from_iter([(
            String::from(if other == true { "allOf" } else { "not" }),
            match other {
                Value::Bool(true) => Value::Array(Vec::new()),
                _ => Value::Object(JsonObject::new()),
            },
        )]),
    }
}

/// The schema of `T` as arguments: an object in any case.
pub(crate) fn of_arguments<T: JsonSchema + ?Sized>() -> JsonObject {
    let mut schema = of::<T>();
    schema.entry("type").or_insert_with(|| "object".into());
    schema
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Checked(Validator);

/// The schema is none, or refers to what is not in it: nothing is ever fetched.
#[derive(Debug)]
pub(crate) struct InvalidSchema(pub(crate) String);

impl Checked {
    pub(crate) fn compile(schema: &JsonObject) -> Result<Self, InvalidSchema> {
        jsonschema::draft202012::options()
            .build(&Value::Object(schema.clone()))
            .map(Self)
            .map_err(|error| InvalidSchema(error.to_string()))
    }

    /// What is wrong with `value`, if anything: the first few violations.
    pub(crate) fn violations(&self, value: &Value) -> Option<String> {
        if self.0.is_valid(value) {
            return None;
        }
        let violations = self.0.iter_errors(value).take(VIOLATIONS_MAX).map(|error| {
            let place = error.instance_path().to_string();
            let mut text = if place.is_empty() { error.to_string() } else { format!("{place}: {error}") };
            text.truncate(text.floor_char_boundary(VIOLATION_BYTES_MAX));
            text
        });
        Some(violations.collect::<Vec<_>>().join("; "))
    }
}

/// Whether a schema that was made of a type says more than the type does: then to read a value as that type is not
/// enough of a check.
pub(crate) fn says_more_than_its_type(schema: &JsonObject) -> bool {
    schema.iter().any(|(keyword, value)| match keyword.as_str() {
        // What serde checks, what checks nothing, and what is looked at where it is defined.
        "$schema" | "title" | "description" | "type" | "required" | "format" | "default" | "examples"
        | "enum" | "const" | "$ref" => false,
        "minimum" | "maximum" => !is_range_of_integer_type(schema),
        "properties" | "$defs" => value.as_object().is_none_or(|schemas| {
            schemas.values().any(|schema| schema.as_object().is_some_and(says_more_than_its_type))
        }),
        "items" | "additionalProperties" => match value {
            Value::Object(schema) => says_more_than_its_type(schema),
            Value::Bool(allowed) => !allowed,
            _ => true,
        },
        "anyOf" | "oneOf" => value.as_array().is_none_or(|schemas| {
            schemas.iter().any(|schema| schema.as_object().is_some_and(says_more_than_its_type))
        }),
        _ => true,
    })
}

/// Integer types have their range in the schema, with their name as the format.
fn is_range_of_integer_type(schema: &JsonObject) -> bool {
    let format = schema.get("format").and_then(Value::as_str);
    let number = |keyword| schema.get(keyword).and_then(Value::as_i64);
    let (minimum, maximum) = (number("minimum"), number("maximum"));
    match format {
        Some("uint8") => (minimum, maximum) == (Some(0), Some(255)),
        Some("uint16") => (minimum, maximum) == (Some(0), Some(65_535)),
        Some("int8") => (minimum, maximum) == (Some(-128), Some(127)),
        Some("int16") => (minimum, maximum) == (Some(-32_768), Some(32_767)),
        Some("uint32" | "uint64" | "uint") => (minimum, maximum) == (Some(0), None),
        _ => false,
    }
}

const VIOLATIONS_MAX: usize = 5;
const VIOLATION_BYTES_MAX: usize = 300;
