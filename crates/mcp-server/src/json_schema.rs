//! JSON Schemas of Rust types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use thruway_mcp::param_headers;
use thruway_mcp::schema::JsonObject;

/// Returns the schema of `T` in dialect 2020-12, which MCP uses.
pub(crate) fn of<T: JsonSchema + ?Sized>() -> JsonObject {
    let mut schema = generated::<T>();
    forget_formats_of_numbers(&mut schema);
    schema
}

/// Returns `true` if all values of `T` are objects, according to the schema of `T`.
pub(crate) fn is_object<T: JsonSchema + ?Sized>() -> bool {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// Returns the schema of a tool result: the schema of `T` if it is of type `object`, otherwise the schema of
/// an object with the member `result` of type `T`.
pub(crate) fn of_result<T: JsonSchema + ?Sized>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = if is_object::<T>() {
        object_of(settings.into_generator().into_root_schema_for::<T>())
    } else {
        let dialect = settings.meta_schema.clone();
        let mut generator = settings.into_generator();
        let result = generator.subschema_for::<T>();
        let definitions = generator.take_definitions(true);
        let mut wrapped = JsonObject::new();
        wrapped.extend(dialect.map(|dialect| ("$schema".to_owned(), dialect.into_owned().into())));
        wrapped.insert("type".to_owned(), "object".into());
        let properties = JsonObject::from_iter([("result".to_owned(), result.into())]);
        wrapped.insert("properties".to_owned(), Value::Object(properties));
        wrapped.insert("required".to_owned(), Value::Array(vec!["result".into()]));
        if !definitions.is_empty() {
            wrapped.insert("$defs".to_owned(), Value::Object(definitions));
        }
        wrapped
    };
    forget_formats_of_numbers(&mut schema);
    schema
}

/// Removes number formats such as `uint32` from a schema, because some clients reject schemas with these
/// formats of Rust types.
fn forget_formats_of_numbers(schema: &mut JsonObject) {
    let is_of_number =
        |format: &Value| format.as_str().is_some_and(|format| NUMBER_FORMATS.contains(&format));
    if schema.get("format").is_some_and(is_of_number) {
        schema.shift_remove("format");
    }
    for value in schema.values_mut() {
        forget_formats_below(value);
    }
}

fn forget_formats_below(value: &mut Value) {
    match value {
        Value::Object(object) => forget_formats_of_numbers(object),
        Value::Array(array) => array.iter_mut().for_each(forget_formats_below),
        _ => {}
    }
}

fn generated<T: JsonSchema + ?Sized>() -> JsonObject {
    object_of(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>())
}

/// Returns the schema of `T` with the schemas of its members in place of references.
pub(crate) fn without_references<T: JsonSchema + ?Sized>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = object_of(settings.into_generator().into_root_schema_for::<T>());
    forget_formats_of_numbers(&mut schema);
    schema
}

fn object_of(schema: Schema) -> JsonObject {
    match Value::from(schema) {
        Value::Object(object) => object,
        // The schema `true` accepts all values, and the schema `false` rejects all values.
        other => JsonObject::from_iter([(
            String::from(if other == true { "allOf" } else { "not" }),
            match other {
                Value::Bool(true) => Value::Array(Vec::new()),
                _ => Value::Object(JsonObject::new()),
            },
        )]),
    }
}

/// Returns a schema for arguments of type `T`. If the schema has no type, adds the type `object`. The second
/// value is `true` if the schema has constraints that serde does not check when it deserializes a `T`.
pub(crate) fn of_arguments<T: JsonSchema + ?Sized>() -> (JsonObject, bool) {
    let mut schema = generated::<T>();
    // Make this check before the number formats are removed. A format shows whether the range of a number
    // comes from the developer or from the integer type.
    let has_constraints = has_more_than_type(&schema);
    forget_formats_of_numbers(&mut schema);
    schema.entry("type").or_insert_with(|| "object".into());
    give_mirrored_arguments_one_type(&mut schema);
    (schema, has_constraints)
}

/// Removes `null` from the types of each argument with the annotation `x-mcp-header`, because this annotation
/// requires a single primitive type. Clients repeat such arguments in HTTP headers. An argument of type
/// `Option` stays optional, because the list `required` does not contain it.
fn give_mirrored_arguments_one_type(schema: &mut JsonObject) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        if property.contains_key(param_headers::ANNOTATION)
            && let Some(Value::Array(types)) = property.get_mut("type")
        {
            types.retain(|name| name != "null");
            if let [only] = &mut types[..] {
                let only = only.take();
                property.insert("type".to_owned(), only);
            }
        }
        give_mirrored_arguments_one_type(property);
    }
}

fn has_more_than_type(schema: &JsonObject) -> bool {
    schema.iter().any(|(keyword, value)| match keyword.as_str() {
        // Either serde checks these keywords, or they constrain nothing.
        "$schema"
        | "title"
        | "description"
        | "type"
        | "required"
        | "format"
        | "default"
        | "examples"
        | "enum"
        | "const"
        | "$ref"
        | param_headers::ANNOTATION => false,
        "minimum" | "maximum" => !is_range_of_integer_type(schema),
        "properties" | "$defs" => value.as_object().is_none_or(|schemas| {
            schemas.values().any(|schema| schema.as_object().is_some_and(has_more_than_type))
        }),
        "items" | "additionalProperties" => match value {
            Value::Object(schema) => has_more_than_type(schema),
            Value::Bool(allowed) => !allowed,
            _ => true,
        },
        "anyOf" | "oneOf" => value.as_array().is_none_or(|schemas| {
            schemas.iter().any(|schema| schema.as_object().is_some_and(has_more_than_type))
        }),
        _ => true,
    })
}

/// Returns `true` if the range in the schema is exactly the range of the integer type that `format` names.
fn is_range_of_integer_type(schema: &JsonObject) -> bool {
    let number = |keyword| schema.get(keyword).and_then(Value::as_i64);
    let range = (number("minimum"), number("maximum"));
    match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => range == (Some(0), Some(255)),
        Some("uint16") => range == (Some(0), Some(65_535)),
        Some("int8") => range == (Some(-128), Some(127)),
        Some("int16") => range == (Some(-32_768), Some(32_767)),
        Some("uint32" | "uint64" | "uint") => range == (Some(0), None),
        _ => false,
    }
}

/// The formats that schemars writes for Rust's number types.
const NUMBER_FORMATS: [&str; 14] = [
    "double", "float", "int", "int128", "int16", "int32", "int64", "int8", "uint", "uint128", "uint16",
    "uint32", "uint64", "uint8",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "the test uses only the schema")]
    struct Mirrored {
        #[schemars(extend("x-mcp-header" = "Region"))]
        region: Option<String>,
        #[schemars(extend("x-mcp-header" = "Priority"))]
        priority: Option<i64>,
        other: Option<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "the test uses only the schema")]
    struct Plain {
        text: String,
        small: u8,
        large: u64,
        signed: i16,
        list: Vec<f64>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "the test uses only the schema")]
    struct Bounded {
        #[schemars(range(min = 0))]
        signed: i64,
    }

    /// The schema of an `i64` with minimum 0 has the same range as that of a `u64`. But reading a `u64`
    /// rejects negative numbers, and reading an `i64` does not.
    #[test]
    fn handwritten_range_requires_schema_validation() {
        assert!(!of_arguments::<Plain>().1);
        let (schema, needs_validation) = of_arguments::<Bounded>();
        assert!(needs_validation);
        assert_eq!(schema["properties"]["signed"], serde_json::json!({"type": "integer", "minimum": 0}));
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "the test uses only the schema")]
    struct Tree {
        value: u8,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        children: Vec<Tree>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "the test uses only the schema")]
    #[serde(tag = "kind")]
    enum Tagged {
        Empty,
        Text { text: String },
    }

    #[test]
    fn result_schemas_are_objects() {
        for schema in [of_result::<i32>(), of_result::<Vec<String>>(), of_result::<Option<Tree>>()] {
            assert_eq!(
                (&schema["type"], &schema["required"]),
                (&"object".into(), &serde_json::json!(["result"]))
            );
        }
        assert_eq!(of_result::<i32>()["properties"], serde_json::json!({"result": {"type": "integer"}}));
        assert!(!is_object::<Option<Tree>>() && !is_object::<Tagged>() && !is_object::<Value>());
        assert!(is_object::<Tree>() && is_object::<std::collections::BTreeMap<String, u8>>());
        assert_eq!(of_result::<Tree>()["required"], serde_json::json!(["value"]), "`children` can be absent");
    }

    /// The root of a recursive schema is `#`. In the schema of a wrapped result, this would be the wrapper.
    #[test]
    fn wrapped_recursive_type_refers_to_its_definition() {
        let schema = of_result::<Vec<Tree>>();
        assert_eq!(schema["properties"]["result"]["items"], serde_json::json!({"$ref": "#/$defs/Tree"}));
        let children = &schema["$defs"]["Tree"]["properties"]["children"];
        assert_eq!(children["items"], serde_json::json!({"$ref": "#/$defs/Tree"}));
        assert_eq!(schema["$defs"]["Tree"]["properties"]["value"].get("format"), None);
    }

    /// schemars writes the type of an optional argument as `["string", "null"]`, which the annotation does
    /// not allow. Tools with such arguments could not be registered.
    #[test]
    fn mirrored_argument_can_be_optional() {
        let (schema, _) = of_arguments::<Mirrored>();
        let properties = &schema["properties"];
        assert_eq!(properties["region"]["type"], "string");
        assert_eq!(properties["priority"]["type"], "integer");
        assert_eq!(properties["other"]["type"], serde_json::json!(["string", "null"]));
        assert_eq!(schema.get("required"), None);
        assert_eq!(param_headers::find(&schema).map(|headers| headers.len()), Ok(2));
    }
}
