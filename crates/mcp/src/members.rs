//! Copies members between JSON objects without parsing their values.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Error: the JSON value is not an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAnObject;

/// Appends the members of `object` for which `keep` returns `true`. Before the call, `output` must end with
/// `{` or with a member.
///
/// # Errors
/// `object` is not an object.
pub fn append_members<'a>(
    output: &mut Vec<u8>,
    object: &'a RawValue,
    keep: impl FnMut(&str, &'a RawValue) -> bool,
) -> Result<(), NotAnObject> {
    let mut deserializer = serde_json::Deserializer::from_str(object.get());
    Appender { output, keep }.deserialize(&mut deserializer).map_err(|_| NotAnObject)
}

/// Appends a member to an object that has no closing brace yet.
pub fn append_member(output: &mut Vec<u8>, name: &str, value: &str) {
    if output.last().is_some_and(|last| *last != b'{') {
        output.push(b',');
    }
    // Writing a string to a vector cannot fail.
    let _ = serde_json::to_writer(&mut *output, name);
    output.push(b':');
    append_line(output, value);
}

/// Appends `json` on one line, by replacing line ends with spaces. The meaning does not change, because
/// line ends in JSON are only white space.
pub fn append_line(output: &mut Vec<u8>, json: &str) {
    let start = output.len();
    output.extend_from_slice(json.as_bytes());
    for byte in &mut output[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// Returns `json` on one line, because messages over stdio must not contain line ends.
pub fn one_line(json: Box<RawValue>) -> Box<RawValue> {
    if memchr2(b'\n', b'\r', json.get().as_bytes()).is_none() {
        return json;
    }
    let line = json.get().replace(['\n', '\r'], " ");
    // This cannot fail, because line ends in JSON are only white space.
    RawValue::from_string(line).unwrap_or(json)
}

struct Appender<'o, F> {
    output: &'o mut Vec<u8>,
    keep: F,
}

impl<'de, F: FnMut(&str, &'de RawValue) -> bool> DeserializeSeed<'de> for Appender<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&str, &'de RawValue) -> bool> Visitor<'de> for Appender<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            if (self.keep)(&name, value) {
                append_member(self.output, &name, value.get());
            }
        }
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("an array"))
    }
}

/// A string, borrowed from the input unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn appended(before: &str, object: &str) -> Result<String, NotAnObject> {
        let mut output = before.as_bytes().to_vec();
        let object = serde_json::from_str(object).unwrap();
        append_members(&mut output, object, |name, _| name != "left out")?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn append_members_copies_values_unchanged() {
        let object = "{ \"a\" : 1.0e2, \"left out\": {},\n\"b\\u0063\":\"\\u0041\\n\" , \"c\":[ 1,\r\n2] }";
        assert_eq!(appended("{", object).unwrap(), "{\"a\":1.0e2,\"bc\":\"\\u0041\\n\",\"c\":[ 1,  2]");
        assert_eq!(appended("{\"z\":0", "{\"a\":null}").unwrap(), "{\"z\":0,\"a\":null");
        assert_eq!(appended("{", "{}").unwrap(), "{");
    }

    #[test]
    fn append_members_rejects_non_objects() {
        for other in ["[]", "[1]", "\"a\"", "1", "null"] {
            assert_eq!(appended("{", other), Err(NotAnObject), "{other}");
        }
    }
}
