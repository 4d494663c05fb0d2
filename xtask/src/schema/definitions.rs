//! The definitions of one `schema.json`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use jsonschema::ValidatorMap;
use serde_json::{Map, Value};

/// The definitions of one `schema.json`, with validators that allow or forbid unknown members.
pub(super) struct Definitions {
    /// Name of the folder with the file.
    pub(super) name: String,
    pub(super) by_name: Map<String, Value>,
    /// The prefix of references to definitions.
    prefix: String,
    open: ValidatorMap,
    /// Validators for the same definitions, which reject members that the schema does not name.
    closed: ValidatorMap,
}

impl Definitions {
    pub(super) fn load(directory: &Path, name: &str) -> Result<Self> {
        let path = directory.join(name).join("schema.json");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Self::new(name, serde_json::from_str(&text)?)
    }

    fn new(name: &str, mut schema: Value) -> Result<Self> {
        // Schema draft 7 uses `definitions`, and 2020-12 uses `$defs`.
        let keyword = ["$defs", "definitions"].into_iter().find(|keyword| schema.get(keyword).is_some());
        let keyword = keyword.context("the schema has no definitions")?;
        let by_name = schema[keyword].as_object().context("the definitions are not an object")?.clone();
        let open = compile(&schema)?;
        let prefix = format!("#/{keyword}/");
        let mut completed = BTreeSet::new();
        completed_elsewhere(&schema, &prefix, &mut completed);
        for (name, definition) in schema[keyword].as_object_mut().into_iter().flatten() {
            if !completed.contains(name) {
                close(definition);
            }
        }
        let closed = compile(&schema)?;
        Ok(Self { name: name.to_owned(), by_name, prefix, open, closed })
    }

    pub(super) fn has(&self, definition: &str) -> bool {
        self.by_name.contains_key(definition)
    }

    /// Returns the members that the schema names for `definition`, without inherited members.
    pub(super) fn members(&self, definition: &str) -> impl Iterator<Item = &String> {
        let properties = self.by_name.get(definition).and_then(|definition| definition.get("properties"));
        properties.and_then(Value::as_object).into_iter().flat_map(Map::keys)
    }

    /// Validates `value` as a `definition`, and returns the errors, if any. If `is_closed`, members that the
    /// schema does not name are errors.
    pub(super) fn validation_error(
        &self,
        definition: &str,
        value: &Value,
        is_closed: bool,
    ) -> Option<String> {
        let validators = if is_closed { &self.closed } else { &self.open };
        let Some(validator) = validators.get(&format!("{}{definition}", self.prefix)) else {
            return Some("the schema has no such definition".into());
        };
        let errors = validator.iter_errors(value);
        let errors: Vec<_> = errors.map(|error| format!("at `{}`: {error}", error.instance_path())).collect();
        (!errors.is_empty()).then(|| errors.join("; "))
    }
}

fn compile(schema: &Value) -> Result<ValidatorMap> {
    jsonschema::options()
        .should_validate_formats(true)
        .build_map(schema)
        .map_err(|error| anyhow!("cannot compile the schema: {error}"))
}

/// Collects the definitions to which another definition adds members with `allOf`.
fn completed_elsewhere(schema: &Value, prefix: &str, names: &mut BTreeSet<String>) {
    let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    let references = parts.filter_map(|part| part.get("$ref")?.as_str()?.strip_prefix(prefix));
    names.extend(references.map(str::to_owned));
    match schema {
        Value::Object(object) => object.values().for_each(|value| completed_elsewhere(value, prefix, names)),
        Value::Array(array) => array.iter().for_each(|value| completed_elsewhere(value, prefix, names)),
        _ => {}
    }
}

/// Forbids unknown members in objects for which the schema names members. Skips `_meta`, which may have other
/// members, and `allOf`, in which each part names only some members.
fn close(schema: &mut Value) {
    let Value::Object(object) = schema else {
        if let Value::Array(schemas) = schema {
            schemas.iter_mut().for_each(close);
        }
        return;
    };
    let is_meta = object.get("properties").and_then(Value::as_object).is_some_and(is_meta);
    if object.contains_key("properties") && !object.contains_key("additionalProperties") && !is_meta {
        object.insert("additionalProperties".into(), false.into());
    }
    for (keyword, value) in object.iter_mut() {
        match keyword.as_str() {
            "allOf" | "const" | "default" | "enum" | "examples" => {}
            "properties" => value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(close),
            _ => close(value),
        }
    }
}

fn is_meta(properties: &Map<String, Value>) -> bool {
    properties.keys().all(|name| name.starts_with("io.modelcontextprotocol/") || name == "progressToken")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_is_validated_by_the_named_definition() {
        for keyword in ["$defs", "definitions"] {
            let crew = json!({"$ref": format!("#/{keyword}/Crew")});
            let properties = json!({"name": {"type": "string"}, "crew": crew});
            let boat = json!({"type": "object", "properties": properties, "required": ["name"]});
            let crew = json!({"properties": {"size": {"type": "integer"}}});
            let schema = json!({keyword: {"Boat": boat, "Crew": crew}});
            let definitions = Definitions::new("boats", schema).unwrap();
            assert!(definitions.has("Boat") && !definitions.has("Oar"));
            assert_eq!(definitions.members("Boat").collect::<Vec<_>>(), ["name", "crew"]);
            for (definition, value, is_valid, is_valid_closed) in [
                ("Boat", json!({"name": "Ada", "crew": {"size": 2}}), true, true),
                ("Boat", json!({"name": "Ada", "crew": {"sise": 2}}), true, false),
                ("Boat", json!({}), false, false),
                ("Boat", json!({"name": "Ada", "crew": {"size": "two"}}), false, false),
                ("Oar", json!({}), false, false),
            ] {
                let is_good =
                    |is_closed| definitions.validation_error(definition, &value, is_closed).is_none();
                assert_eq!((is_good(false), is_good(true)), (is_valid, is_valid_closed), "{value}");
            }
        }
    }
}
