//! Arguments that clients send as texts: the arguments of prompts, and the variables of URIs. This module
//! converts them to the types of a handler's parameters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Value, json};
use thruway_mcp::json_rpc::Error;
use thruway_server::extractors::text_value::{TextValue, TextValueError};

use super::list::start_of;
use super::uri_template::UriParameters;
use crate::handlers::{AsyncInput, HandlerError};

/// The arguments of a prompt, converted to `T`. The protocol has texts only, so a number is the text `5`.
pub struct TextArguments<T>(pub T);

/// The variables of a URI, converted to `T`.
pub struct UriVariables<T>(pub Result<T, HandlerError>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for TextArguments<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let arguments = BTreeMap::<String, Value>::deserialize(deserializer)?;
        // Some clients send `null` for an absent argument, or numbers as JSON numbers.
        let texts = arguments.into_iter().filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::String(text) => Some((name, text)),
            other => Some((name, other.to_string())),
        });
        converted(texts).map(Self).map_err(D::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for TextArguments<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: DeserializeOwned> From<UriParameters> for UriVariables<T> {
    fn from(parameters: UriParameters) -> Self {
        let (uri, parameters) = parameters.into_parts();
        Self(converted(parameters.into_iter()).map_err(|error| {
            let reason = format!("the URI is invalid: {}", start_of(&error.to_string()));
            Error::invalid_params(reason).with_data(json!({ "uri": uri })).into()
        }))
    }
}

impl<T> AsyncInput for UriVariables<T> {}

fn converted<T: DeserializeOwned>(texts: impl Iterator<Item = (String, String)>) -> Result<T, TextError> {
    let members = texts.map(|(name, text)| (name.clone(), TextValue::<TextError>::new(name, text)));
    T::deserialize(MapDeserializer::new(members))
}

/// Reason why arguments or variables cannot be converted.
#[derive(Debug)]
struct TextError(String);

impl TextValueError for TextError {
    const HAS_JSON: bool = true;

    fn of(name: &str, reason: impl fmt::Display) -> Self {
        Self(format!("`{name}`: {reason}"))
    }
}

impl serde::de::Error for TextError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
    }

    #[derive(Deserialize, PartialEq, Debug)]
    struct Id(u16);

    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        text: String,
        id: Id,
        color: Option<Color>,
        ratio: Option<f64>,
        #[serde(default)]
        is_new: bool,
        #[serde(default)]
        list: Vec<u8>,
    }

    fn read(arguments: &Value) -> Result<Arguments, String> {
        let read = serde_json::from_str::<TextArguments<Arguments>>(&arguments.to_string());
        read.map(|TextArguments(arguments)| arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn texts_become_typed_arguments() {
        let all = json!({
            "text": "5", "id": "7", "color": "red", "ratio": "1.5", "is_new": "true", "list": "[1, 2]"
        });
        let expected = Arguments {
            text: "5".to_owned(),
            id: Id(7),
            color: Some(Color::Red),
            ratio: Some(1.5),
            is_new: true,
            list: vec![1, 2],
        };
        assert_eq!(read(&all), Ok(expected));
        let few = read(&json!({"text": "null", "id": "0", "color": null})).unwrap();
        assert_eq!((&*few.text, few.color, few.ratio, few.is_new), ("null", None, None, false));
        let numbers = read(&json!({"text": 5, "id": 7, "ratio": 2, "is_new": true, "list": [3]})).unwrap();
        assert_eq!((&*numbers.text, numbers.id, numbers.list), ("5", Id(7), vec![3]));
    }

    #[test]
    fn error_names_argument_and_type() {
        for (changed, value, expected) in [
            ("id", json!("70000"), "`id`: expected `u16`"),
            ("id", json!(""), "`id`: expected `u16`"),
            ("color", json!("blue"), "`color`: unknown variant `blue`, expected `red`"),
            ("ratio", json!("one"), "`ratio`: expected `f64`"),
            ("is_new", json!("yes"), "`is_new`: expected `bool`"),
            ("list", json!("[1] 2"), "`list`: trailing characters"),
            ("list", json!("[300]"), "`list`: invalid value: integer `300`"),
            ("other", json!("1"), "unknown field `other`"),
        ] {
            let mut arguments = json!({"text": "", "id": "1"});
            arguments[changed] = value;
            let error = read(&arguments).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read(&json!({"text": ""})).unwrap_err().starts_with("missing field `id`"));
    }
}
