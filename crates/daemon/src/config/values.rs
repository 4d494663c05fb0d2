//! Types for values of a config file: values with positions, durations, tables with a string as a short form,
//! and strings from environment variables.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::de::{DeTable, DeValue};

/// A range of bytes in the text of the config.
pub(in crate::config) type Span = Range<usize>;

/// A value and its position in the file. In contrast to [`toml::Spanned`], this type has a JSON Schema,
/// which is the schema of the value.
pub(in crate::config) struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    pub(in crate::config) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> Deref for Spanned<T> {
    type Target = toml::Spanned<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        toml::Spanned::deserialize(deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
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

/// Orders map keys by value and ignores their positions.
impl<T: Ord> Ord for Spanned<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.get_ref().cmp(other.get_ref())
    }
}

impl<T: Ord> PartialOrd for Spanned<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord> Eq for Spanned<T> {}

/// A table that has a string as a short form. `#[serde(untagged)]` would give worse error messages.
pub(in crate::config) struct TextOrTable<T>(pub(in crate::config) T);

/// Parses the two forms of a [`TextOrTable`].
pub(in crate::config) trait FromText: Sized + JsonSchema {
    /// Description of the expected value, for error messages.
    const EXPECTED: &'static str;

    /// Returns the JSON Schema of both forms. The default implementation returns the schema of the type.
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
        struct PeriodVisitor;
        impl Visitor<'_> for PeriodVisitor {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(DURATION)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Period, E> {
                let error =
                    |_| E::custom(format!("`{text}` is not a duration: write `10s`, `1m 30s` or `500ms`"));
                humantime::parse_duration(text).map(Period).map_err(error)
            }
        }
        deserializer.deserialize_str(PeriodVisitor)
    }
}

/// Description of a duration in errors.
pub(in crate::config) const DURATION: &str = "a duration in quotes, such as `\"10s\"`";

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
            // Prints full hours in hours. `humantime` would print 24 hours as a day.
            seconds @ 3600.. if seconds % 3600 == 0 => write!(f, "{}h", seconds / 3600),
            _ => humantime::format_duration(self.0).fmt(f),
        }
    }
}

/// Strings with values of environment variables, and their positions.
#[derive(Default)]
pub(in crate::config) struct Filled(pub(in crate::config) Vec<(Range<usize>, String)>);

impl Filled {
    /// Returns `true` if the string at `place` contains a value of an environment variable.
    pub(in crate::config) fn is_at(&self, place: &Range<usize>) -> bool {
        self.text_at(place).is_some()
    }

    /// Replaces a string in `table` by a number or boolean. The string is at `place`, and comes from an
    /// environment variable. Returns `false` if the string is neither a number nor a boolean.
    pub(in crate::config) fn retype<'f>(&'f self, table: &mut DeTable<'f>, place: &Range<usize>) -> bool {
        let parsed = self.text_at(place).and_then(|text| DeValue::parse(text.trim()).ok());
        let Some(value) = parsed.map(toml::Spanned::into_inner) else { return false };
        let is_meant = value.is_integer() || value.is_float() || value.is_bool();
        is_meant && table.iter_mut().any(|(_, at)| replace_text(at, place, &value))
    }

    /// Returns each string with values of environment variables, and its position.
    pub(in crate::config) fn texts(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.0.iter().map(|(at, text)| (at, text.as_str()))
    }

    fn text_at(&self, place: &Range<usize>) -> Option<&str> {
        self.0.iter().find(|(at, _)| at == place).map(|(_, text)| text.as_str())
    }
}

/// Replaces the string at the position `place` by `value`, if `at` contains this string. Returns `true` if
/// the string was replaced.
fn replace_text<'f>(at: &mut toml::Spanned<DeValue<'f>>, place: &Range<usize>, value: &DeValue<'f>) -> bool {
    let is_there = at.span() == *place;
    match at.get_mut() {
        text @ DeValue::String(_) if is_there => {
            *text = value.clone();
            true
        }
        DeValue::Array(values) => values.iter_mut().any(|at| replace_text(at, place, value)),
        DeValue::Table(table) => table.iter_mut().any(|(_, at)| replace_text(at, place, value)),
        _ => false,
    }
}
