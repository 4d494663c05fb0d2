//! Request ids.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A borrowed request id: an integer, or a string of at most [`ID_BYTES_MAX`] bytes. `null` and fractions
/// are not valid ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Id<'a> {
    /// An integer.
    Integer(i64),
    /// A string, borrowed from the message unless it contains escapes.
    String(Cow<'a, str>),
}

/// An owned request id: an integer or a string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// An integer.
    Integer(i64),
    /// A string.
    String(String),
}

impl Id<'_> {
    /// Returns an owned copy of the id.
    pub fn to_owned(&self) -> RequestId {
        match self {
            Self::Integer(integer) => RequestId::Integer(*integer),
            Self::String(string) => RequestId::String(string.clone().into_owned()),
        }
    }
}

impl<'a> From<&'a RequestId> for Id<'a> {
    fn from(id: &'a RequestId) -> Self {
        match id {
            RequestId::Integer(integer) => Self::Integer(*integer),
            RequestId::String(string) => Self::String(Cow::Borrowed(string)),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Id<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Id::deserialize(deserializer).map(|id| id.to_owned())
    }
}

struct IdVisitor;

impl<'de> Visitor<'de> for IdVisitor {
    type Value = Id<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_i64<E: de::Error>(self, integer: i64) -> Result<Id<'de>, E> {
        Ok(Id::Integer(integer))
    }

    fn visit_u64<E: de::Error>(self, integer: u64) -> Result<Id<'de>, E> {
        i64::try_from(integer).map(Id::Integer).map_err(|_| E::custom("the integer does not fit in 64 bits"))
    }

    fn visit_borrowed_str<E: de::Error>(self, string: &'de str) -> Result<Id<'de>, E> {
        check_length(string).map(|()| Id::String(Cow::Borrowed(string)))
    }

    fn visit_str<E: de::Error>(self, string: &str) -> Result<Id<'de>, E> {
        check_length(string).map(|()| Id::String(Cow::Owned(string.to_owned())))
    }
}

fn check_length<E: de::Error>(string: &str) -> Result<(), E> {
    if string.len() > ID_BYTES_MAX { Err(E::custom("the string is too long")) } else { Ok(()) }
}

/// Maximum length of an id, in bytes. The server keeps several copies of an id while its request is in
/// progress.
pub const ID_BYTES_MAX: usize = 1024;

impl Serialize for Id<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(integer) => serializer.serialize_i64(*integer),
            Self::String(string) => serializer.serialize_str(string),
        }
    }
}
