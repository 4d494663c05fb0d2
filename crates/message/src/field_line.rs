//! One field line: a name and a value (RFC 9110 §5).

use alloc::vec::Vec;
use core::fmt;

use crate::token::{is_field_value, is_token};

/// A field name, which is a token (RFC 9110 §5.1). Comparisons of field names ignore case.
#[derive(Clone, Copy)]
pub struct FieldName<'a>(&'a [u8]);

/// A field value (RFC 9110 §5.5). A value contains no control characters except tab, and neither begins
/// nor ends with whitespace. A value can contain bytes that are not UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldValue<'a>(&'a [u8]);

/// A field name with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldLine<'a> {
    /// The field's name.
    pub name: FieldName<'a>,
    /// The value on this line. If several lines have the same name, each line contains a part of the field's
    /// value.
    pub value: FieldValue<'a>,
}

impl FieldLine<'_> {
    /// Appends the line to `output` in wire format: name, colon, one space, value and CRLF.
    pub fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(self.name.as_bytes());
        output.extend_from_slice(b": ");
        output.extend_from_slice(self.value.as_bytes());
        output.extend_from_slice(b"\r\n");
    }
}

impl<'a> FieldName<'a> {
    /// Creates a field name from `bytes`. The name keeps its case.
    ///
    /// # Errors
    /// Returns an error if `bytes` is not a token.
    pub const fn new(bytes: &'a [u8]) -> Result<Self, InvalidFieldLine> {
        if is_token(bytes) { Ok(Self(bytes)) } else { Err(InvalidFieldLine::Name) }
    }

    /// Creates a field name from the string literal `name`.
    ///
    /// # Panics
    /// Panics if `name` is not a token. In a constant, this panic is a compile-time error.
    pub const fn from_static(name: &'static str) -> FieldName<'static> {
        assert!(is_token(name.as_bytes()), "a field name must be a token");
        FieldName(name.as_bytes())
    }

    /// Returns the name in its original case.
    pub fn as_str(&self) -> &'a str {
        core::str::from_utf8(self.0).unwrap_or_default()
    }

    /// Returns the bytes of the name in its original case.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns `true` if the field name equals `name`, ignoring case.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns `true` if the field controls a single HTTP/1.1 connection, as `Connection` and `Upgrade`
    /// do. HTTP/2 messages must not contain such fields (RFC 9113 §8.2.2).
    pub fn is_of_connection(&self) -> bool {
        let of_connection = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
        of_connection.iter().any(|name| self.is(name))
    }

    /// Creates a field name from `bytes`. The caller must be a parser that has checked `bytes`.
    pub(crate) const fn from_parsed(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> FieldValue<'a> {
    /// Creates a field value from `bytes`.
    ///
    /// # Errors
    /// Returns an error if `bytes` contains a control character except tab, or begins or ends with
    /// whitespace.
    pub const fn new(bytes: &'a [u8]) -> Result<Self, InvalidFieldLine> {
        if is_field_value(bytes) { Ok(Self(bytes)) } else { Err(InvalidFieldLine::Value) }
    }

    /// Returns the bytes of the value.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the value as text, or `None` if the value is not UTF-8. Almost all values are ASCII.
    pub fn as_str(&self) -> Option<&'a str> {
        core::str::from_utf8(self.0).ok()
    }

    /// Creates a field value from `bytes`. The caller must be a parser that has checked `bytes`.
    pub(crate) const fn from_parsed(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl PartialEq for FieldName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for FieldName<'_> {}

impl PartialEq<str> for FieldValue<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for FieldValue<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
}

impl fmt::Debug for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The reason that a field line is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidFieldLine {
    /// The name is not a token (RFC 9110 §5.1).
    Name,
    /// The value contains a control character, or begins or ends with whitespace (RFC 9110 §5.5).
    Value,
}

impl fmt::Display for InvalidFieldLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a field name must be a token",
            Self::Value => "a field value must not contain control characters or outer whitespace",
        })
    }
}

impl core::error::Error for InvalidFieldLine {}
