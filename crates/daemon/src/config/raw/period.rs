//! A time such as `1m 30s`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// A duration, written with its unit.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(in crate::config) struct Period(pub(in crate::config) Duration);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let error = |_| {
            serde::de::Error::custom(format!("`{text}` is not a duration: write `10s`, `1m 30s` or `500ms`"))
        };
        humantime::parse_duration(&text).map(Self).map_err(error)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A duration: `10s`, `1m 30s` or `500ms`." })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            // Not in days, because nobody would write those.
            seconds @ 3600.. if seconds % 3600 == 0 => write!(f, "{}h", seconds / 3600),
            _ => humantime::format_duration(self.0).fmt(f),
        }
    }
}
