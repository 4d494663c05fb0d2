//! Converts the schemas of a document to the JSON Schemas of tools.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::document::{Dialect, Document, shown};

/// The schemas of one tool. Referenced schemas become definitions (`$defs`), so recursive schemas are
/// possible.
pub(crate) struct Schemas<'d> {
    document: &'d Document,
    /// The names of the definitions, by reference.
    names: BTreeMap<&'d str, String>,
    definitions: Map<String, Value>,
    /// References that are not converted yet.
    waiting: Vec<&'d str>,
    /// The number of converted values.
    values: usize,
}

impl<'d> Schemas<'d> {
    pub(crate) fn new(document: &'d Document) -> Self {
        let (names, definitions) = (BTreeMap::new(), Map::new());
        Self { document, names, definitions, waiting: Vec::new(), values: 0 }
    }

    /// Converts a schema.
    ///
    /// # Errors
    /// Returns an error if the schema is nested too deeply or too large, or has an invalid reference.
    pub(crate) fn convert(&mut self, schema: &'d Value) -> Result<Value, String> {
        let converted = self.schema(schema, 0)?;
        while let Some(reference) = self.waiting.pop() {
            let target = self.document.target(reference)?;
            let definition = self.schema(target, 0)?;
            self.definitions.insert(self.names[reference].clone(), definition);
        }
        Ok(converted)
    }

    /// Returns the definitions that the converted schemas refer to.
    pub(crate) fn into_definitions(self) -> Map<String, Value> {
        self.definitions
    }

    fn schema(&mut self, schema: &'d Value, depth: usize) -> Result<Value, String> {
        self.values += 1;
        if depth > DEPTH_MAX {
            return Err(format!("a schema is nested more than {DEPTH_MAX} levels deep"));
        }
        if self.values > VALUES_MAX {
            return Err(format!("its schemas have more than {VALUES_MAX} parts"));
        }
        let Value::Object(members) = schema else {
            return match schema {
                Value::Bool(_) => Ok(schema.clone()),
                _ => Err("a schema is neither an object nor a boolean".to_owned()),
            };
        };
        let mut converted = Map::new();
        if let Some(reference) = members.get("$ref") {
            let reference = reference.as_str().ok_or("`$ref` is not a text")?;
            converted.insert("$ref".to_owned(), format!("#/$defs/{}", self.name_of(reference)?).into());
            if self.document.dialect == Dialect::OpenApi30 {
                return Ok(Value::Object(converted));
            }
        }
        for (keyword, value) in members {
            if let Some(value) = self.keyword(keyword, value, depth)? {
                converted.insert(keyword.clone(), value);
            }
        }
        forget_read_only(members, &mut converted);
        if self.document.dialect == Dialect::OpenApi30 {
            modernize(members, &mut converted);
        }
        Ok(Value::Object(converted))
    }

    /// Converts the value of a keyword. Returns `None` for a keyword that tools do not need.
    fn keyword(&mut self, keyword: &str, value: &'d Value, depth: usize) -> Result<Option<Value>, String> {
        let one = |schemas: &mut Self, schema: &'d Value| schemas.schema(schema, depth + 1);
        Ok(Some(match keyword {
            "properties" | "patternProperties" | "dependentSchemas" => {
                let members = value.as_object().ok_or_else(|| format!("`{keyword}` is not an object"))?;
                let converted = members.iter().map(|(name, schema)| Ok((name.clone(), one(self, schema)?)));
                Value::Object(converted.collect::<Result<_, String>>()?)
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let schemas = value.as_array().ok_or_else(|| format!("`{keyword}` is not a list"))?;
                schemas.iter().map(|schema| one(self, schema)).collect::<Result<_, _>>()?
            }
            "items"
            | "additionalProperties"
            | "not"
            | "contains"
            | "propertyNames"
            | "if"
            | "then"
            | "else"
            | "unevaluatedItems"
            | "unevaluatedProperties" => one(self, value)?,
            "format" => return Ok(FORMATS.iter().any(|format| value == format).then(|| value.clone())),
            "$dynamicRef" => return Err("`$dynamicRef` is not supported".to_owned()),
            _ if KEPT.contains(&keyword) => value.clone(),
            _ => return Ok(None),
        }))
    }

    /// Returns the name of the definition for a reference.
    fn name_of(&mut self, reference: &'d str) -> Result<String, String> {
        if let Some(name) = self.names.get(reference) {
            return Ok(name.clone());
        }
        if self.names.len() >= DEFINITIONS_MAX {
            return Err(format!("its schemas refer to more than {DEFINITIONS_MAX} other schemas"));
        }
        self.document.target(reference)?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        let mut name: String =
            last.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' }).collect();
        name.truncate(NAME_BYTES_MAX);
        let base = name.clone();
        let mut number = 1;
        while name.is_empty() || self.names.values().any(|other| *other == name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.names.insert(reference, name.clone());
        self.waiting.push(reference);
        Ok(name)
    }
}

/// Removes the properties that only responses have.
fn forget_read_only(members: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = members.get("properties") else { return };
    let read_only: Vec<_> =
        properties.iter().filter(|(_, schema)| schema["readOnly"] == true).map(|(name, _)| name).collect();
    if let Some(Value::Object(properties)) = converted.get_mut("properties") {
        properties.retain(|name, _| !read_only.contains(&name));
    }
    if let Some(Value::Array(required)) = converted.get_mut("required") {
        required.retain(|name| !read_only.iter().any(|other| name == *other));
    }
}

/// Converts the keywords of OpenAPI 3.0 that JSON Schema 2020-12 does not have.
fn modernize(members: &Map<String, Value>, converted: &mut Map<String, Value>) {
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = converted.get(exclusive) {
            let is_exclusive = *is_exclusive;
            converted.shift_remove(exclusive);
            if is_exclusive && let Some(bound) = converted.shift_remove(limit) {
                converted.insert(exclusive.to_owned(), bound);
            }
        }
    }
    if members.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    if let Some(Value::Array(values)) = converted.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(kind @ Value::String(_)) = converted.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
}

/// Returns a text for errors about the property `name`.
pub(crate) fn of_property(name: &str, reason: &str) -> String {
    format!("`{}`: {reason}", shown(name))
}

/// The formats that tools keep. Some clients reject schemas with other formats, such as `int64`.
const FORMATS: [&str; 10] =
    ["date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"];

/// The keywords whose values are no schemas.
const KEPT: [&str; 24] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
    "deprecated",
];

/// Maximum depth of nested schemas, without references.
const DEPTH_MAX: usize = 64;

/// Maximum number of schemas in a tool.
const VALUES_MAX: usize = 5000;

/// Maximum number of definitions in a tool.
const DEFINITIONS_MAX: usize = 200;

/// Maximum length of the name of a definition.
const NAME_BYTES_MAX: usize = 64;
