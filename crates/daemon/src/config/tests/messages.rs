//! Tests of messages about values of the wrong type.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// Regression test: a response written as a string was refused with "expected struct `RawAnswer`".
#[test]
fn no_value_error_contains_a_rust_type_name() {
    let schema = schema();
    let mut messages = BTreeSet::new();
    try_values(schema.as_value(), schema.as_value(), &mut Vec::new(), &mut messages);
    assert!(messages.len() > 30, "some values have the wrong type: {messages:#?}");
    messages.retain(|message| message.split(|c: char| !c.is_alphanumeric()).any(is_name_of_type));
    assert!(messages.is_empty(), "{messages:#?}");
}

/// Collects the messages for values of all types at `node` in the schema, and at all nodes below it.
fn try_values(root: &Value, node: &Value, path: &mut Vec<String>, messages: &mut BTreeSet<String>) {
    if path.len() > DEPTH_MAX {
        return;
    }
    if !path.is_empty() {
        for value in VALUES {
            let text = path.iter().rev().fold(value.to_owned(), |text, step| step.replace("...", &text));
            // Without the braces of the whole file.
            let text = text[1..text.len() - 1].to_owned();
            let parsed = parse::parse(&Source::new(PathBuf::from("a.toml"), text, secrets::hidden));
            let message = parsed.err().map(|failure| failure.to_string()).unwrap_or_default();
            messages.extend(message.lines().next().map(str::to_owned));
        }
    }
    let referred = node["$ref"].as_str().and_then(|at| root.pointer(at.strip_prefix('#')?));
    let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|list| node[list].as_array());
    for node in referred.into_iter().chain(lists.flatten()) {
        try_values(root, node, path, messages);
    }
    let mut below = |node: &Value, step: String| {
        path.push(step);
        try_values(root, node, path, messages);
        path.pop();
    };
    for (key, node) in node["properties"].as_object().into_iter().flatten() {
        below(node, format!("{{ {key} = ... }}"));
    }
    if node["additionalProperties"].is_object() {
        below(&node["additionalProperties"], "{ name = ... }".to_owned());
    }
    if node["items"].is_object() {
        below(&node["items"], "[...]".to_owned());
    }
}

fn is_name_of_type(word: &str) -> bool {
    let is_raw = word.strip_prefix("Raw").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    is_raw || NAMES_OF_TYPES.contains(&word)
}

const VALUES: [&str; 11] =
    ["\"\"", "\"x\"", "-1", "5000000000", "1.5", "true", "[]", "[-1]", "[[1]]", "{}", "{ x = 1 }"];

/// Names of types in Rust and serde.
const NAMES_OF_TYPES: [&str; 20] = [
    "enum",
    "f64",
    "i64",
    "identifier",
    "map",
    "newtype",
    "option",
    "sequence",
    "spanned",
    "struct",
    "tuple",
    "u16",
    "u32",
    "u64",
    "u8",
    "unit",
    "untagged",
    "usize",
    "variant",
    "visitor",
];

/// Deep enough for a list of tables in a table in a list of tables.
const DEPTH_MAX: usize = 7;
