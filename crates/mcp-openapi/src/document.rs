//! The OpenAPI document, and the references within it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::OpenApiError;

/// An OpenAPI document.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Value,
    pub(crate) dialect: Dialect,
}

/// The dialect of the schemas in a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    /// OpenAPI 3.0: a variant of JSON Schema with `nullable`.
    OpenApi30,
    /// OpenAPI 3.1: JSON Schema 2020-12.
    JsonSchema,
}

impl Document {
    /// Parses a document.
    ///
    /// # Errors
    /// Returns an error if `text` is not JSON, has another version, or has no paths.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenApiError> {
        let invalid = |reason: &str| OpenApiError::Document(reason.to_owned());
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(invalid("it is larger than 16 MiB"));
        }
        let root: Value =
            serde_json::from_str(text).map_err(|error| invalid(&format!("it is not JSON: {error}")))?;
        let dialect = match root["openapi"].as_str() {
            Some(version) if version.starts_with("3.0.") => Dialect::OpenApi30,
            Some(version) if version.starts_with("3.1.") => Dialect::JsonSchema,
            Some(version) => {
                let version: String = version.chars().take(20).collect();
                return Err(invalid(&format!("the version `{version}` is neither 3.0 nor 3.1")));
            }
            None => return Err(invalid("it has no member `openapi` with a version")),
        };
        if !root["paths"].is_object() {
            return Err(invalid("it has no object `paths`"));
        }
        Ok(Self { root, dialect })
    }

    /// Returns the value behind all references of `value`. A reference is an object with `$ref`.
    ///
    /// # Errors
    /// Returns an error if a reference leaves the document, refers to nothing, or is part of a circle.
    pub(crate) fn resolve<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..REFERENCES_MAX {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.target(reference)?,
                None => return Ok(value),
            }
        }
        Err(format!("more than {REFERENCES_MAX} references follow each other"))
    }

    /// Returns the value that a reference names.
    ///
    /// # Errors
    /// Returns an error if the reference leaves the document or refers to nothing.
    pub(crate) fn target(&self, reference: &str) -> Result<&Value, String> {
        let shown = shown(reference);
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!("`{shown}` refers to another document"));
        };
        let pointer = percent_decode_str(pointer).decode_utf8_lossy();
        self.root.pointer(&pointer).ok_or_else(|| format!("`{shown}` refers to nothing"))
    }
}

/// Returns the start of a text from the document, for errors.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    if end < text.len() { format!("{}…", &text[..end]).into() } else { text.into() }
}

/// Maximum size of a document.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Maximum number of references that follow each other.
const REFERENCES_MAX: usize = 16;

const SHOWN_BYTES_MAX: usize = 100;
