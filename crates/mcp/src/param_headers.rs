//! HTTP headers that mirror (repeat) arguments of a tool call, as requested by the annotation `x-mcp-header`
//! (MCP revision 2026-07-28).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use serde_json::{Map, Value};
use thruway_message::token::is_token;

/// A tool argument that an HTTP header mirrors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamHeader {
    /// The name of the header: `Mcp-Param-` followed by the value of the annotation.
    pub field_name: String,
    /// The property names on the path from the arguments object to the argument.
    pub path: Vec<String>,
}

/// Error: an input schema has an invalid annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidAnnotation {
    /// The annotated property is not an integer, a string or a boolean.
    NotPrimitive,
    /// The value of the annotation is not a string, or contains characters that a header name cannot
    /// contain.
    NotToken,
    /// The annotated property has no fixed path, for example because it is below `items`, `anyOf` or
    /// `$ref`.
    NotReachable,
    /// Two annotations have the same value, ignoring case.
    Repeated,
}

/// Finds the annotations `x-mcp-header` of an input schema.
///
/// # Errors
/// An annotation is invalid. A client must not use a tool with an invalid annotation.
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

/// Returns `true` if a schema inside of `value` has an annotation. The recursion is bounded, because the
/// JSON parser limits the depth of values.
fn is_annotated_below(value: &Value) -> bool {
    match value {
        Value::Object(object) => object.contains_key(ANNOTATION) || object.values().any(is_annotated_below),
        Value::Array(array) => array.iter().any(is_annotated_below),
        _ => false,
    }
}

impl ParamHeader {
    /// Returns the value that the header must have for `arguments`. Returns `None` if the header must be
    /// absent.
    pub fn expected(&self, arguments: &Value) -> Option<String> {
        match self.argument(arguments)? {
            Value::String(string) => Some(string.clone()),
            argument @ (Value::Bool(_) | Value::Number(_)) => Some(argument.to_string()),
            // A `null` counts as an absent argument. The validation of the arguments rejects arrays and
            // objects.
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Returns `true` if a header with the decoded value `value` matches `arguments`.
    pub fn mirrors(&self, value: &str, arguments: &Value) -> bool {
        let Some(expected) = self.expected(arguments) else { return false };
        // The header value `05` matches the number 5, but not the string `5`.
        value == expected
            || self.argument(arguments).is_some_and(Value::is_number) && Self::is_same(value, &expected)
    }

    /// Returns `true` if `value` and `expected` are the same number.
    pub fn is_same(value: &str, expected: &str) -> bool {
        match (value.parse::<i64>(), expected.parse::<i64>()) {
            (Ok(value), Ok(expected)) => value == expected,
            // JSON Schema also accepts `5.0` as an integer.
            _ => matches!((value.parse::<f64>(), expected.parse::<f64>()),
                (Ok(value), Ok(expected)) if value.is_finite() && value.partial_cmp(&expected) == Some(Ordering::Equal)),
        }
    }

    fn argument<'v>(&self, arguments: &'v Value) -> Option<&'v Value> {
        self.path.iter().try_fold(arguments, |value, name| value.get(name))
    }
}

/// The prefix of the names of headers that mirror arguments.
pub const PREFIX: &str = "Mcp-Param-";

/// The JSON Schema keyword that requests a header for an argument.
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
        assert!(headers[1].mirrors("5", &json!({"nested": {"n": 5.0}})), "5.0 is the same number as 5");
        for value in ["6", "", "five", "inf", "NaN", "5.5"] {
            assert!(!headers[1].mirrors(value, &arguments), "{value}");
        }
        assert!(!headers[0].mirrors("05", &json!({"region": "5"})), "strings are not compared as numbers");
        assert!(!headers[1].mirrors("5", &json!({})), "a header without its argument does not match");
    }

    #[test]
    fn invalid_header_annotations_are_rejected() {
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
