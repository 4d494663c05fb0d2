//! Encodes names and arguments as values of HTTP headers. These headers mirror (repeat) values of the message
//! body (MCP revision 2026-07-28, section Streamable HTTP).
//!
//! ```
//! use thruway_mcp::header_value::{decode, encode};
//!
//! assert_eq!(encode("echo"), "echo");
//! assert_eq!(encode("grün"), "=?base64?Z3LDvG4=?=");
//! assert_eq!(decode(b"=?base64?Z3LDvG4=?=").unwrap(), "grün");
//! ```

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Error: a header value is invalid. Either the value contains bytes other than printable ASCII characters,
/// spaces and tabs. Or the value is marked as Base64, but is not valid Base64 of UTF-8 text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidHeaderValue;

/// Encodes `text` as a header value. If a header value cannot contain `text`, encodes the text as Base64
/// between markers.
pub fn encode(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{START}{}{END}", STANDARD.encode(text)))
    }
}

/// Decodes a header value. The caller must have removed white space around the value.
///
/// # Errors
/// See [`InvalidHeaderValue`].
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, InvalidHeaderValue> {
    let text = core::str::from_utf8(value).map_err(|_| InvalidHeaderValue)?;
    let Some(encoded) = text.strip_prefix(START).and_then(|rest| rest.strip_suffix(END)) else {
        return if text.bytes().all(is_allowed) { Ok(Cow::Borrowed(text)) } else { Err(InvalidHeaderValue) };
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| InvalidHeaderValue)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| InvalidHeaderValue)
}

/// Returns `true` if `text` can be sent as a header value without encoding, and does not look like an
/// encoded value.
fn is_plain(text: &str) -> bool {
    let is_trimmed = !text.starts_with([' ', '\t']) && !text.ends_with([' ', '\t']);
    is_trimmed && text.bytes().all(is_allowed) && !(text.starts_with(START) && text.ends_with(END))
}

const fn is_allowed(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t')
}

const START: &str = "=?base64?";
const END: &str = "?=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_header_value_decodes_to_same_text() {
        for text in
            ["echo", "two words", "", " padded ", "grün", "a\nb", "=?base64?eA==?=", "=?base64?", "tab\there"]
        {
            let encoded = encode(text);
            assert!(encoded.bytes().all(is_allowed), "{encoded:?}");
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(text));
        }
        assert_eq!(encode("echo"), "echo");
        assert_eq!(encode("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn malformed_header_value_is_rejected() {
        for value in ["=?base64?!!?=", "=?base64?eA?=", "=?base64?/w==?=", "gr\u{fc}n", "a\u{7f}"] {
            assert_eq!(decode(value.as_bytes()), Err(InvalidHeaderValue), "{value}");
        }
        assert_eq!(decode(b"\xff"), Err(InvalidHeaderValue));
        assert_eq!(
            decode(b"=?BASE64?eA==?=").as_deref(),
            Ok("=?BASE64?eA==?="),
            "only a lowercase marker means encoded"
        );
    }
}
