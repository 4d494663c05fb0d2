//! Validates values against JSON Schemas of the dialect 2020-12.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jsonschema::{PatternOptions, ValidationOptions, Validator};
use serde_json::Value;

use crate::schema::JsonObject;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct CompiledSchema(Validator);

/// Error: the schema is invalid, or refers to another document. The compiler never fetches other
/// documents.
#[derive(Debug)]
pub struct InvalidSchema(pub String);

impl CompiledSchema {
    /// Compiles a schema that this program defines.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn compile(schema: &JsonObject) -> Result<Self, InvalidSchema> {
        Self::compile_with(&jsonschema::draft202012::options(), schema)
    }

    /// Compiles a schema that this program defines. The schema also rejects texts without the format that a
    /// keyword `format` names, such as `email`.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn compile_with_formats(schema: &JsonObject) -> Result<Self, InvalidSchema> {
        Self::compile_with(&jsonschema::draft202012::options().should_validate_formats(true), schema)
    }

    /// Compiles a schema from another program. Rejects regular expressions that can take more than linear
    /// time in the length of the text.
    ///
    /// # Errors
    /// The schema is invalid, or contains a regular expression that can take more than linear time.
    pub fn compile_untrusted(schema: &JsonObject) -> Result<Self, InvalidSchema> {
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        Self::compile_with(&jsonschema::draft202012::options().with_pattern_options(patterns), schema)
    }

    fn compile_with(options: &ValidationOptions, schema: &JsonObject) -> Result<Self, InvalidSchema> {
        let compiled = options.build(&Value::Object(schema.clone()));
        compiled.map(Self).map_err(|error| InvalidSchema(error.to_string()))
    }

    /// Validates `value`. Returns a description of the first violations of the schema, or `None` if
    /// `value` is valid.
    pub fn violations(&self, value: &Value) -> Option<String> {
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

const VIOLATIONS_MAX: usize = 5;
const VIOLATION_BYTES_MAX: usize = 300;

/// Maximum size in bytes of a compiled regular expression from another program. The cache for matching may
/// need as much memory in addition.
const PATTERN_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn formats_are_validated_on_request() {
        let schema = JsonObject::from_iter([("format".to_owned(), "email".into())]);
        let compiled = CompiledSchema::compile_with_formats(&schema).unwrap();
        assert_eq!(compiled.violations(&"ada@example.com".into()), None);
        assert!(compiled.violations(&"ada".into()).is_some());
        assert_eq!(CompiledSchema::compile(&schema).unwrap().violations(&"ada".into()), None);
    }

    #[test]
    fn untrusted_schema_with_backtracking_pattern_is_rejected() {
        let schema = |pattern: &str| JsonObject::from_iter([("pattern".to_owned(), pattern.into())]);
        assert!(CompiledSchema::compile_untrusted(&schema("^(a+)+$")).is_ok());
        for costly in ["(?=(a+)+b)a", r"(a+)\1b", "(a{1000}){1000}"] {
            assert!(CompiledSchema::compile_untrusted(&schema(costly)).is_err(), "{costly}");
        }
        assert!(
            CompiledSchema::compile(&schema("(?=(a+)+b)a")).is_ok(),
            "a server's own patterns are trusted"
        );
    }
}
