//! What is said by a text, or by a table where there is more to say.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What may be written as a text if nothing else is to be said. Not what serde calls untagged: that would say of a mistake
/// only that there is one.
pub(in super::super) struct TextOrTable<T>(pub(in super::super) T);

/// What [`TextOrTable`] reads.
pub(in super::super) trait FromText: Sized + JsonSchema {
    /// What it is, for those who wrote something else.
    const EXPECTED: &'static str;

    /// The JSON Schema of text and table. Default that of the type.
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E>;
    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error>;
}

impl<T: FromText> JsonSchema for TextOrTable<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::schema(generator)
    }
}

impl<'de, T: FromText> Deserialize<'de> for TextOrTable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: FromText> Visitor<'de> for Reader<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
                T::from_text(text)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
                T::from_table(table)
            }
        }

        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

/// A duration, written with its unit.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(in crate::config) struct Period(pub(in crate::config) Duration);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let error =
            |_| Error::custom(format!("`{text}` is not a duration: write `10s`, `1m 30s` or `500ms`"));
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
