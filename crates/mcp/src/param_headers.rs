//! Headers that mirror arguments of a tool: the annotation `x-mcp-header` (2026-07-28).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use serde_json::{Map, Value};
use thruway_message::token::is_token;

/// An argument that a header mirrors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamHeader {
    /// The field name: `Mcp-Param-` and the value of the annotation.
    pub field_name: String,
    /// The path of property names to the argument.
    pub path: Vec<String>,
}

/// The reason why an input schema cannot be used for mirroring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidAnnotation {
    /// The annotated property is not an integer, a string or a boolean.
    NotPrimitive,
    /// The annotation is not a string, or contains characters that a field name cannot contain.
    NotToken,
    /// The annotation is in a place without a fixed path, such as below `items`, `anyOf` or `$ref`.
    NotReachable,
    /// Two annotations differ only in case.
    Repeated,
}

/// Finds the annotations of an input schema.
///
/// # Errors
/// An annotation is invalid. A client must not use such a tool.
pub fn find(input_schema: &Map<String, Value>) -> Result<Vec<ParamHeader>, InvalidAnnotation> {
    let mut headers = Vec::new();
    find_below(input_schema, &mut Vec::new(), &mut headers)?;
    let names: BTreeSet<_> = headers.iter().map(|header| header.field_name.to_ascii_lowercase()).collect();
    if names.len() < headers.len() { Err(InvalidAnnotation::Repeated) } else { Ok(headers) }
}

fn find_below(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    headers: &mut Vec<ParamHeader>,
) -> Result<(), InvalidAnnotation> {
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let Value::Object(property) = property else { continue };
                    path.push(name.clone());
                    headers.extend(annotation(property, path)?);
                    find_below(property, path, headers)?;
                    path.pop();
                }
            }
            // These keywords contain values instead of schemas.
            ("const" | "default" | "enum" | "examples", _) => {}
            (_, value) if is_annotated_below(value) => return Err(InvalidAnnotation::NotReachable),
            _ => {}
        }
    }
    Ok(())
}

fn annotation(
    property: &Map<String, Value>,
    path: &[String],
) -> Result<Option<ParamHeader>, InvalidAnnotation> {
    let Some(annotation) = property.get(ANNOTATION) else { return Ok(None) };
    let Some(name) = annotation.as_str().filter(|name| is_token(name.as_bytes())) else {
        return Err(InvalidAnnotation::NotToken);
    };
    match property.get("type").and_then(Value::as_str) {
        Some("integer" | "string" | "boolean") => {
            Ok(Some(ParamHeader { field_name: format!("{PREFIX}{name}"), path: path.to_vec() }))
        }
        _ => Err(InvalidAnnotation::NotPrimitive),
    }
}

/// Returns `true` if a schema anywhere in `value` has an annotation. The JSON parser limits the depth.
fn is_annotated_below(value: &Value) -> bool {
    match value {
        Value::Object(object) => object.contains_key(ANNOTATION) || object.values().any(is_annotated_below),
        Value::Array(array) => array.iter().any(is_annotated_below),
        _ => false,
    }
}

impl ParamHeader {
    /// Returns the value that the header must have for `arguments`, or `None` if it must be absent.
    pub fn expected(&self, arguments: &Value) -> Option<String> {
        match self.argument(arguments)? {
            Value::String(string) => Some(string.clone()),
            argument @ (Value::Bool(_) | Value::Number(_)) => Some(argument.to_string()),
            // Null counts as absent. The validation of the arguments rejects other types.
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Returns `true` if a header with the decoded `value` matches `arguments`.
    pub fn mirrors(&self, value: &str, arguments: &Value) -> bool {
        let Some(expected) = self.expected(arguments) else { return false };
        // `05` equals the number 5, but not the string.
        value == expected
            || self.argument(arguments).is_some_and(Value::is_number) && Self::is_same(value, &expected)
    }

    /// Returns `true` if `value` is the same number as `expected`.
    pub fn is_same(value: &str, expected: &str) -> bool {
        match (value.parse::<i64>(), expected.parse::<i64>()) {
            (Ok(value), Ok(expected)) => value == expected,
            // `5.0` is an integer too.
            _ => matches!((value.parse::<f64>(), expected.parse::<f64>()),
                (Ok(value), Ok(expected)) if value.is_finite() && value.partial_cmp(&expected) == Some(Ordering::Equal)),
        }
    }

    fn argument<'v>(&self, arguments: &'v Value) -> Option<&'v Value> {
        self.path.iter().try_fold(arguments, |value, name| value.get(name))
    }
}

/// The prefix of headers that mirror arguments.
pub const PREFIX: &str = "Mcp-Param-";

/// The schema keyword of the annotation.
pub const ANNOTATION: &str = "x-mcp-header";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn find_in(schema: &Value) -> Result<Vec<ParamHeader>, InvalidAnnotation> {
        find(schema.as_object().unwrap())
    }

    #[test]
    fn annotated_properties_are_found_at_any_depth() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "x-mcp-header": {"type": "string"},
            "nested": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
        }});
        let headers = find_in(&schema).unwrap();
        let names: Vec<_> = headers.iter().map(|header| header.field_name.as_str()).collect();
        assert_eq!(names, ["Mcp-Param-Region", "Mcp-Param-N"]);
        let arguments = json!({"region": "eu", "nested": {"n": 5}});
        assert_eq!(headers[0].expected(&arguments).as_deref(), Some("eu"));
        assert_eq!(headers[1].expected(&arguments).as_deref(), Some("5"));
        assert_eq!(headers[1].expected(&json!({"nested": {"n": null}})), None);
        assert!(headers[1].mirrors("5", &arguments) && headers[1].mirrors("05", &arguments));
        assert!(headers[1].mirrors("5", &json!({"nested": {"n": 5.0}})), "the same number");
        for value in ["6", "", "five", "inf", "NaN", "5.5"] {
            assert!(!headers[1].mirrors(value, &arguments), "{value}");
        }
        assert!(!headers[0].mirrors("05", &json!({"region": "5"})), "strings are no numbers");
        assert!(!headers[1].mirrors("5", &json!({})), "no argument, no header");
    }

    #[test]
    fn what_cannot_be_mirrored_is_refused() {
        let property = |property: Value| json!({"properties": {"a": property}});
        let cases = [
            (property(json!({"type": "number", "x-mcp-header": "A"})), InvalidAnnotation::NotPrimitive),
            (property(json!({"type": "string", "x-mcp-header": ""})), InvalidAnnotation::NotToken),
            (property(json!({"type": "string", "x-mcp-header": "a b"})), InvalidAnnotation::NotToken),
            (property(json!({"type": "string", "x-mcp-header": 5})), InvalidAnnotation::NotToken),
            (
                property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
                InvalidAnnotation::NotReachable,
            ),
            (
                json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
                InvalidAnnotation::NotReachable,
            ),
            (
                json!({"properties": {
                    "a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"},
                }}),
                InvalidAnnotation::Repeated,
            ),
        ];
        for (schema, expected) in cases {
            assert_eq!(find_in(&schema), Err(expected), "{schema}");
        }
    }
}
