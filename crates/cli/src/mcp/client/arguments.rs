//! Arguments of the form `key=value`, converted to the types in the schema of a tool.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use thruway_mcp_sdk::schema::{
    CompleteArgument, CompleteContext, CompletionReference, PromptReference, ResourceTemplateReference, Tool,
};

use crate::config::Failure;

/// Returns the arguments of a prompt. All values are strings.
pub(super) fn of_prompt(pairs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    pairs.iter().map(|pair| split(pair).map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
}

/// Returns the arguments of a tool, converted to the types in the schema of the tool.
pub(super) fn of_tool(pairs: &[String], tool: Option<&Tool>) -> Result<Map<String, Value>, Failure> {
    pairs
        .iter()
        .map(|pair| {
            let (key, text) = split(pair)?;
            let schema = tool.and_then(|tool| tool.input_schema.get("properties")?.get(key));
            Ok((key.to_owned(), typed(key, text, schema)?))
        })
        .collect()
}

/// Returns the parameters of a completion request: the prompt or template, the argument to complete, and the
/// values of other arguments in `known`.
pub(super) fn of_completion(
    reference: &str,
    argument: &str,
    known: &[String],
) -> Result<(CompletionReference, CompleteArgument, Option<CompleteContext>), Failure> {
    let reference = if reference.contains("://") {
        CompletionReference::Resource(ResourceTemplateReference { uri: reference.to_owned() })
    } else {
        CompletionReference::Prompt(PromptReference { name: reference.to_owned(), title: None })
    };
    let (name, value) = split(argument)?;
    let argument = CompleteArgument { name: name.to_owned(), value: value.to_owned() };
    let arguments = of_prompt(known)?;
    let context = (!arguments.is_empty()).then_some(CompleteContext { arguments });
    Ok((reference, argument, context))
}

pub(super) fn of_json(text: &str) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::new("the value of `--json` is not a JSON object")
            .with_hint("write `{\"key\": \"value\"}`")),
        Err(error) => Err(Failure::new(format!("the value of `--json` is not a JSON object: {error}"))),
    }
}

fn split(pair: &str) -> Result<(&str, &str), Failure> {
    pair.split_once('=').ok_or_else(|| Failure::new(format!("invalid argument `{pair}`: write `key=value`")))
}

/// Converts `text` to a type in the schema. If `text` is valid JSON of such a type, such as a number, returns
/// the JSON value. Otherwise, returns `text` as a string, if the schema allows strings. If the schema names
/// no type, `text` may be JSON of any type or a string.
fn typed(key: &str, text: &str, schema: Option<&Value>) -> Result<Value, Failure> {
    let types = types(schema);
    let parsed = serde_json::from_str::<Value>(text);
    match (types.is_empty(), parsed) {
        (_, Ok(value)) if types.iter().any(|name| has_type(&value, name)) => Ok(value),
        (true, Ok(value)) => Ok(value),
        (true, Err(_)) => Ok(text.into()),
        (false, _) if types.contains(&"string") => Ok(text.into()),
        (false, _) => Err(Failure::new(format!(
            "invalid argument `{key}={text}`: the tool expects {}",
            types.join(" or ")
        ))),
    }
}

/// Returns the types that a schema names, or an empty list if the schema names no types.
fn types(schema: Option<&Value>) -> Vec<&str> {
    match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        // The function `typed` handles strings, because users do not type the quotes of a JSON string.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn typed_as(text: &str, schema: &Value) -> Option<Value> {
        typed("key", text, Some(schema)).ok()
    }

    #[test]
    fn argument_type_follows_the_schema() {
        assert_eq!(typed_as("5", &json!({"type": "string"})), Some(json!("5")));
        assert_eq!(typed_as("5", &json!({"type": "integer"})), Some(json!(5)));
        assert_eq!(typed_as("5.5", &json!({"type": "number"})), Some(json!(5.5)));
        assert_eq!(typed_as("5", &json!({"type": ["string", "integer"]})), Some(json!(5)));
        assert_eq!(typed_as("five", &json!({"type": ["string", "integer"]})), Some(json!("five")));
        assert_eq!(typed_as("true", &json!({"type": "boolean"})), Some(json!(true)));
        assert_eq!(typed_as("[1]", &json!({"type": "array"})), Some(json!([1])));
        assert_eq!(typed_as("five", &json!({"type": "integer"})), None);
        assert_eq!(typed_as("5.5", &json!({"type": "integer"})), None);
    }

    #[test]
    fn argument_without_schema_type_is_json_or_else_a_string() {
        assert_eq!(typed_as("5", &json!({})), Some(json!(5)));
        assert_eq!(typed_as("five", &json!({"anyOf": []})), Some(json!("five")));
        assert_eq!(of_tool(&["a=b=c".into()], None).ok(), json!({"a": "b=c"}).as_object().cloned());
        assert!(of_tool(&["a".into()], None).is_err() && of_json("[1]").is_err());
    }
}
