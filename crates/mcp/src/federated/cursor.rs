//! The cursors of merged lists.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::items::ListKind;

/// A position in a merged list: after the item with the key `last`. A cursor stays valid when the list
/// changes, also if that item disappears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The kind of the list.
    pub kind: ListKind,
    /// The key of the last item before the position: a public name or a URI.
    pub last: String,
}

/// The error for a text that is not a cursor for the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidCursor;

impl Cursor {
    /// Returns the cursor as text: ASCII letters, digits, `-` and `_`.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(2 + self.last.len());
        bytes.extend([VERSION, code(self.kind)]);
        bytes.extend_from_slice(self.last.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor for a list of the kind `kind`.
    ///
    /// # Errors
    /// `cursor` is not the text of a cursor for this kind.
    pub fn decode(kind: ListKind, cursor: &str) -> Result<Self, InvalidCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidCursor)?;
        let last = bytes.strip_prefix(&[VERSION, code(kind)]).ok_or(InvalidCursor)?;
        let last = String::from_utf8(last.to_vec()).map_err(|_| InvalidCursor)?;
        Ok(Self { kind, last })
    }
}

const fn code(kind: ListKind) -> u8 {
    match kind {
        ListKind::Tools => b't',
        ListKind::Resources => b'r',
        ListKind::ResourceTemplates => b'm',
        ListKind::Prompts => b'p',
    }
}

impl fmt::Display for InvalidCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown cursor")
    }
}

impl core::error::Error for InvalidCursor {}

/// The version of the format.
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;

    use super::*;

    fn cursor(kind: ListKind, last: &str) -> Cursor {
        Cursor { kind, last: last.to_owned() }
    }

    #[test]
    fn decoding_reverses_encoding() {
        for kind in ListKind::ALL {
            for last in ["", "a", "github__read_issue", "file:///ä?b#c", "\0"] {
                let text = cursor(kind, last).encode();
                assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
                assert_eq!(Cursor::decode(kind, &text), Ok(cursor(kind, last)));
            }
        }
    }

    #[test]
    fn cursor_of_another_kind_is_invalid() {
        let text = cursor(ListKind::Tools, "a").encode();
        for kind in [ListKind::Resources, ListKind::ResourceTemplates, ListKind::Prompts] {
            assert_eq!(Cursor::decode(kind, &text), Err(InvalidCursor));
        }
    }

    #[test]
    fn other_texts_are_invalid() {
        let text = cursor(ListKind::Tools, "ab").encode();
        let of_bytes = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let padded = alloc::format!("{text}=");
        for text in
            ["", "0", "1", "!", &padded, &of_bytes(b"\x01"), &of_bytes(b"\x02ta"), &of_bytes(b"\x01t\xff")]
        {
            assert_eq!(Cursor::decode(ListKind::Tools, text), Err(InvalidCursor), "{text}");
        }
    }
}
