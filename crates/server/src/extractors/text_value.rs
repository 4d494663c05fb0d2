//! Texts with names, which serde converts to the types of parameters: parameters of routes, arguments of MCP
//! prompts, and variables of URIs.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{CowStrDeserializer, Error as ValueError};
use serde::de::{Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// A text, and the name of its parameter for errors of the type `E`. Numbers, `bool`, `char` and enums have
/// their usual form.
#[derive(Debug)]
pub struct TextValue<'a, E> {
    name: Cow<'a, str>,
    text: Cow<'a, str>,
    error: PhantomData<fn() -> E>,
}

/// The error for a text that cannot be converted.
pub trait TextValueError: Error {
    /// `true` if lists, maps and structs are JSON texts. Otherwise, they cannot be converted.
    const HAS_JSON: bool;

    /// Returns the error for the text with this name.
    fn of(name: &str, reason: impl fmt::Display) -> Self;
}

impl<'a, E: TextValueError> TextValue<'a, E> {
    /// Returns the text of the parameter `name`.
    pub fn new(name: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        Self { name: name.into(), text: text.into(), error: PhantomData }
    }

    /// Returns the name of the parameter.
    pub fn name(&self) -> Cow<'a, str> {
        self.name.clone()
    }

    /// Passes the text to `visitor`.
    fn visit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, E> {
        let result: Result<_, ValueError> = match self.text {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        };
        result.map_err(|error| E::of(&self.name, error))
    }
}

/// Parses the text as a number or another simple type.
macro_rules! parsed {
    ($($method:ident $visit:ident $kind:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            let value = self.text.parse::<$kind>();
            let value = value.map_err(|_| E::of(&self.name, concat!("expected `", stringify!($kind), "`")))?;
            visitor.$visit(value)
        }
    )*};
}

/// Parses the text as JSON, if the error type allows this.
macro_rules! parsed_as_json {
    ($($method:ident($($argument:ident: $kind:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, E> {
            if !E::HAS_JSON {
                return self.visit(visitor);
            }
            let mut json = serde_json::Deserializer::from_reader(self.text.as_bytes());
            let value = json.$method($($argument,)* visitor).map_err(|error| E::of(&self.name, error))?;
            json.end().map_err(|error| E::of(&self.name, error))?;
            Ok(value)
        }
    )*};
}

impl<'de, E: TextValueError> Deserializer<'de> for TextValue<'de, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.visit(visitor)
    }

    parsed! {
        deserialize_bool visit_bool bool
        deserialize_i8 visit_i8 i8
        deserialize_i16 visit_i16 i16
        deserialize_i32 visit_i32 i32
        deserialize_i64 visit_i64 i64
        deserialize_i128 visit_i128 i128
        deserialize_u8 visit_u8 u8
        deserialize_u16 visit_u16 u16
        deserialize_u32 visit_u32 u32
        deserialize_u64 visit_u64 u64
        deserialize_u128 visit_u128 u128
        deserialize_f32 visit_f32 f32
        deserialize_f64 visit_f64 f64
        deserialize_char visit_char char
    }

    parsed_as_json! {
        deserialize_seq()
        deserialize_tuple(count: usize)
        deserialize_tuple_struct(name: &'static str, count: usize)
        deserialize_map()
        deserialize_struct(name: &'static str, members: &'static [&'static str])
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        let variant: CowStrDeserializer<'_, ValueError> = self.text.into_deserializer();
        visitor.visit_enum(variant).map_err(|error| E::of(&self.name, error))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        str string bytes byte_buf unit_struct identifier ignored_any
    }
}

impl<'de, E: TextValueError> IntoDeserializer<'de, E> for TextValue<'de, E> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
