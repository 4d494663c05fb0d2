//! Encodes attributes: the message `KeyValue` of OTLP.
//!
//! A request has about twenty attributes, so this code is the main cost of an exported span. A short attribute
//! (less than 128 bytes) needs two writes: a start of constant length, and the text.

#![expect(clippy::inline_always, reason = "the lengths and bytes of the constant names become constants")]

use crate::protobuf::{low_byte, varint_bytes, write_bytes, write_message, write_varint};
use crate::span::{Attribute, Value};

/// The attributes of a span, which become a part of the encoded span.
#[derive(Debug)]
pub struct SpanAttributes<'o> {
    output: &'o mut Vec<u8>,
}

/// Encoded fields that many spans have in common.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EncodedFields(Vec<u8>);

impl EncodedFields {
    /// Encodes the attributes that `add` adds.
    pub fn attributes(add: impl FnOnce(&mut SpanAttributes<'_>)) -> Self {
        let mut output = Vec::new();
        add(&mut SpanAttributes::new(&mut output));
        Self(output)
    }

    /// Encodes a name and attributes. A space separates `name` and `target`. The span itself must have an empty
    /// name.
    pub fn named(name: &str, target: Option<&str>, add: impl FnOnce(&mut SpanAttributes<'_>)) -> Self {
        let mut output = Vec::new();
        write_name(&mut output, name, target);
        add(&mut SpanAttributes::new(&mut output));
        Self(output)
    }
}

impl<'o> SpanAttributes<'o> {
    pub(crate) const fn new(output: &'o mut Vec<u8>) -> Self {
        Self { output }
    }

    /// Adds an attribute.
    #[inline(always)]
    pub fn add<'a>(&mut self, name: &'static str, value: impl Into<Value<'a>>) {
        write_attribute(self.output, SPAN_ATTRIBUTES, &Attribute { name, value: value.into() });
    }

    /// Adds an attribute if it has a value.
    #[inline(always)]
    pub fn add_some<'a>(&mut self, name: &'static str, value: Option<impl Into<Value<'a>>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds an attribute whose text consists of `parts`.
    #[inline(always)]
    pub fn add_text<const N: usize>(&mut self, name: &'static str, parts: [&str; N]) {
        write_text(self.output, SPAN_ATTRIBUTES, name, parts.map(str::as_bytes));
    }

    /// Adds an attribute whose text consists of `parts`. Replaces bytes that are not UTF-8. The check is fast
    /// for ASCII.
    #[inline(always)]
    pub fn add_bytes<const N: usize>(&mut self, name: &'static str, parts: [&[u8]; N]) {
        if parts.iter().all(|part| part.is_ascii()) {
            write_text(self.output, SPAN_ATTRIBUTES, name, parts);
        } else {
            self.add_lossy(name, &parts);
        }
    }

    #[cold]
    fn add_lossy(&mut self, name: &'static str, parts: &[&[u8]]) {
        let text = String::from_utf8_lossy(&parts.concat()).into_owned();
        write_text(self.output, SPAN_ATTRIBUTES, name, [text.as_bytes()]);
    }

    /// Adds fields that are already encoded.
    #[inline]
    pub fn add_encoded(&mut self, fields: &EncodedFields) {
        self.output.extend_from_slice(&fields.0);
    }
}

/// Appends an attribute as an entry of the list with the number `field`.
#[inline(always)]
pub(crate) fn write_attribute(output: &mut Vec<u8>, field: u32, attribute: &Attribute<'_>) {
    match attribute.value {
        Value::Text(text) => write_text(output, field, attribute.name, [text.as_bytes()]),
        Value::Integer(number) => write_number(output, field, attribute.name, number.cast_unsigned()),
        Value::Boolean(is_true) => write_boolean(output, field, attribute.name, is_true),
    }
}

/// Appends an attribute with a truth value. The name has at most [`NAME_BYTES_MAX`] bytes.
fn write_boolean(output: &mut Vec<u8>, field: u32, name: &'static str, is_true: bool) {
    let start = Start::new(field, name, 2);
    output.extend_from_slice(start.with(name, [BOOLEAN, is_true.into()]).of(name, 2));
}

/// Appends an attribute whose text consists of `parts`, which contain UTF-8.
#[inline(always)]
pub(crate) fn write_text<const N: usize>(
    output: &mut Vec<u8>,
    field: u32,
    name: &'static str,
    parts: [&[u8]; N],
) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if KEY_AND_VALUE_BYTES + name.len() + 2 + length >= SHORT_BYTES {
        return write_long_text(output, field, name, &parts);
    }
    let start = Start::new(field, name, 2 + length);
    output.extend_from_slice(start.with(name, [TEXT, byte(length)]).of(name, 2));
    for part in parts {
        output.extend_from_slice(part);
    }
}

/// Appends the name of a span, with `target` as its second part.
#[inline]
pub(crate) fn write_name(output: &mut Vec<u8>, name: &str, target: Option<&str>) {
    let length = name.len() + target.map_or(0, |target| target.len() + 1);
    if length >= SHORT_BYTES {
        let name = [name, if target.is_some() { " " } else { "" }, target.unwrap_or_default()].concat();
        return write_bytes(output, NAME, shortened(&name).as_bytes());
    }
    output.extend_from_slice(&[tag(NAME), byte(length)]);
    output.extend_from_slice(name.as_bytes());
    if let Some(target) = target {
        output.push(b' ');
        output.extend_from_slice(target.as_bytes());
    }
}

#[cold]
fn write_long_text(output: &mut Vec<u8>, field: u32, name: &'static str, parts: &[&[u8]]) {
    let text = parts.concat();
    let text = str::from_utf8(&text).unwrap_or_default();
    write_message(output, field, |output| {
        write_bytes(output, 1, name.as_bytes());
        write_message(output, 2, |output| write_bytes(output, 1, shortened(text).as_bytes()));
    });
}

/// Appends an attribute with an integer. The name has at most [`NAME_BYTES_MAX`] bytes.
#[inline(always)]
fn write_number(output: &mut Vec<u8>, field: u32, name: &'static str, number: u64) {
    let length = varint_bytes(number);
    let start = Start::new(field, name, 1 + length);
    let (low, high) = (low_byte(number), low_byte(number >> 7));
    match length {
        1 => output.extend_from_slice(start.with(name, [INTEGER, low]).of(name, 2)),
        2 => output.extend_from_slice(start.with(name, [INTEGER, low | 0x80, high]).of(name, 3)),
        _ => {
            output.extend_from_slice(start.with(name, [INTEGER]).of(name, 1));
            write_varint(output, number);
        }
    }
}

/// The start of an encoded attribute. After inlining, the compiler knows its length, so it adds the start to the
/// output with a few instructions.
struct Start([u8; NAME_BYTES_MAX + 9]);

impl Start {
    /// Returns the start of an attribute, up to its value of `value` bytes.
    #[inline(always)]
    fn new(field: u32, name: &'static str, value: usize) -> Self {
        let mut bytes = [0; NAME_BYTES_MAX + 9];
        let end = 4 + name.len();
        bytes[..4].copy_from_slice(&[
            tag(field),
            byte(KEY_AND_VALUE_BYTES + name.len() + value),
            KEY,
            byte(name.len()),
        ]);
        bytes[4..end].copy_from_slice(name.as_bytes());
        bytes[end..end + 2].copy_from_slice(&[VALUE, byte(value)]);
        Self(bytes)
    }

    /// Adds the first bytes of the value.
    #[inline(always)]
    fn with<const N: usize>(mut self, name: &'static str, value: [u8; N]) -> Self {
        self.0[6 + name.len()..][..N].copy_from_slice(&value);
        self
    }

    /// Returns the bytes of the start, including the first `value` bytes of the value.
    #[inline(always)]
    fn of(&self, name: &'static str, value: usize) -> &[u8] {
        &self.0[..6 + name.len() + value]
    }
}

/// Returns the tag of a length-delimited field. The field number is below 16.
#[inline]
const fn tag(field: u32) -> u8 {
    debug_assert!(field < 16);
    byte((field << 3 | 2) as usize)
}

#[inline]
const fn byte(length: usize) -> u8 {
    low_byte(length as u64)
}

/// Returns the start of `text` with at most [`Value::TEXT_BYTES_MAX`] bytes.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(Value::TEXT_BYTES_MAX)]
}

/// Maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 100;

/// The field number of `Span.name`.
const NAME: u32 = 5;

/// The field number of `Span.attributes`.
const SPAN_ATTRIBUTES: u32 = 9;

/// Tag of `KeyValue.key`.
const KEY: u8 = 0x0a;

/// Tag of `KeyValue.value`.
const VALUE: u8 = 0x12;

/// Tag of `AnyValue.string_value`.
const TEXT: u8 = 0x0a;

/// Tag of `AnyValue.bool_value`.
const BOOLEAN: u8 = 0x10;

/// Tag of `AnyValue.int_value`.
const INTEGER: u8 = 0x18;

/// Number of bytes for the tags and lengths of the key and the value.
const KEY_AND_VALUE_BYTES: usize = 4;

/// Lengths below this number have one byte.
const SHORT_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{Field, read_field};

    /// Returns the name and the value in an encoded attribute.
    fn decoded(mut output: &[u8]) -> (String, Result<String, u64>) {
        let (mut name, mut value) = (String::new(), Err(0));
        let Some((9, Field::Bytes(attribute), [])) = read_field(output) else { panic!("{output:?}") };
        output = attribute;
        while let Some((number, Field::Bytes(bytes), rest)) = read_field(output) {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            match (number, read_field(bytes)) {
                (2, Some((1, Field::Bytes(bytes), []))) => value = Ok(text(bytes)),
                (2, Some((3, Field::Integer(number), []))) => value = Err(number),
                _ => name = text(bytes),
            }
            output = rest;
        }
        (name, value)
    }

    #[test]
    fn texts_of_all_lengths_round_trip() {
        for length in (0..300).chain([1023, 1024, 1025, 20_000]) {
            let text = "t".repeat(length);
            let (one, two) = text.split_at(length / 3);
            let mut output = Vec::new();
            SpanAttributes::new(&mut output).add_text("url.full", [one, two]);
            let expected = Ok("t".repeat(length.min(Value::TEXT_BYTES_MAX)));
            assert_eq!(decoded(&output), ("url.full".to_owned(), expected), "{length}");
        }
    }

    #[test]
    fn integers_round_trip() {
        for number in [0, 1, 127, 128, 65_535, u64::from(u32::MAX), 1 << 62] {
            let mut output = Vec::new();
            SpanAttributes::new(&mut output).add("http.response.body.size", number);
            assert_eq!(decoded(&output), ("http.response.body.size".to_owned(), Err(number)));
        }
    }

    #[test]
    fn long_texts_are_shortened_at_a_character() {
        let text = "\u{e9}".repeat(600);
        assert_eq!(shortened(&text).len(), 1024);
        assert_eq!(shortened(&format!("a{text}")).len(), 1023);
        assert_eq!(shortened("short"), "short");
    }
}
