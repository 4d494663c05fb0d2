//! The cursors of merged lists.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::items::ListKind;

/// A position in a merged list: after the item with the key `last`. A cursor is valid at each endpoint and at any
/// time, because it does not depend on the contents of the list. The item with the key may be missing.
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
