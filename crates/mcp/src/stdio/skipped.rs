//! Finds the id and the kind of a message that is too large to be stored.
//!
//! The parser reads the bytes in pieces of any size and stores only the id and the kind of the message.

use alloc::vec::Vec;

use crate::json_rpc::{ID_BYTES_MAX, Id};
use crate::schema::RequestId;

/// A parser for a message that is not stored.
#[derive(Default, Debug)]
pub(super) struct SkipParser {
    /// Number of open objects and arrays.
    depth: usize,
    text: Text,
    /// The start of the JSON text of the current name or id. The parser cuts longer names and ids.
    word: Vec<u8>,
    member: Member,
    /// The id of the message. `None` if the message has no valid id.
    id: Option<RequestId>,
    has_method: bool,
    /// `true` if the message is not a single object.
    is_other: bool,
}

/// The kind of a message that was not stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SkippedMessage {
    /// The answer to the request with this id.
    Answer(RequestId),
    /// The request with this id.
    Request(RequestId),
    /// A notification, or an answer without a valid id.
    Other,
    /// The line is not a complete JSON object, so the kind of the message is unknown.
    Unknown,
}

/// Returns the kind of the message in a complete line, even if the line is not valid JSON.
pub fn passed(line: &[u8]) -> SkippedMessage {
    let mut skipped = SkipParser::default();
    skipped.see(line);
    skipped.end()
}

/// The position of the parser: outside of a string, inside of a string, or after a backslash in a string.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Text {
    #[default]
    Outside,
    Inside,
    Escaped,
}

/// The part of the message that the parser is reading.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Member {
    /// The name of a member.
    #[default]
    Name,
    Id,
    Method,
    Other,
}

impl SkipParser {
    pub(super) fn see(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.see_one(*byte);
        }
    }

    /// Returns the kind of the message. The caller must have passed all bytes of the message.
    pub(super) fn end(&self) -> SkippedMessage {
        let is_whole = !self.is_other && self.depth == 0 && self.text == Text::Outside;
        match &self.id {
            _ if !is_whole => SkippedMessage::Unknown,
            Some(id) if self.has_method => SkippedMessage::Request(id.clone()),
            Some(id) => SkippedMessage::Answer(id.clone()),
            None => SkippedMessage::Other,
        }
    }

    fn see_one(&mut self, byte: u8) {
        match (self.text, byte) {
            (Text::Inside, b'\\') => {
                self.text = Text::Escaped;
                self.note(byte);
            }
            (Text::Inside, b'"') => {
                self.text = Text::Outside;
                self.note(byte);
            }
            (Text::Inside, _) => self.note(byte),
            (Text::Escaped, _) | (Text::Outside, b'"') => {
                self.text = Text::Inside;
                self.note(byte);
            }
            (Text::Outside, b'{' | b'[') => {
                self.is_other |= self.depth == 0 && byte == b'[';
                self.depth += 1;
            }
            (Text::Outside, b'}' | b']') => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            (Text::Outside, b':') => self.begin_value(),
            (Text::Outside, b',') => self.end_member(),
            (Text::Outside, byte) if byte.is_ascii_whitespace() => {}
            (Text::Outside, _) => {
                self.is_other |= self.depth == 0;
                self.note(byte);
            }
        }
    }

    fn note(&mut self, byte: u8) {
        let bytes_max = match self.member {
            Member::Name => NAME_BYTES_MAX,
            Member::Id => WRITTEN_ID_BYTES_MAX,
            Member::Method | Member::Other => 0,
        };
        if self.depth == 1 && self.word.len() < bytes_max {
            self.word.push(byte);
        }
    }

    fn begin_value(&mut self) {
        if self.depth == 1 {
            self.member = match &*self.word {
                br#""id""# => Member::Id,
                br#""method""# => Member::Method,
                _ => Member::Other,
            };
            self.word.clear();
        }
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        self.has_method |= self.member == Member::Method;
        if self.member == Member::Id {
            let id: Option<Id<'_>> = serde_json::from_slice(&self.word).ok();
            self.id = id.map(|id| id.to_owned());
        }
        self.member = Member::Name;
        self.word.clear();
    }
}

/// Maximum number of stored bytes of a name. The parser looks only for the names `id` and `method`, which
/// are shorter.
const NAME_BYTES_MAX: usize = 16;

/// Maximum number of stored bytes of an id. The longest id needs two quotes and up to 6 bytes for each
/// escaped byte, plus one spare byte.
const WRITTEN_ID_BYTES_MAX: usize = 6 * ID_BYTES_MAX + 3;

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;

    use super::*;

    fn answer(id: i64) -> SkippedMessage {
        SkippedMessage::Answer(RequestId::Integer(id))
    }

    fn parse_in_pieces(message: &str, piece: usize) -> SkippedMessage {
        let mut skipped = SkipParser::default();
        for bytes in message.as_bytes().chunks(piece) {
            skipped.see(bytes);
        }
        skipped.end()
    }

    #[test]
    fn skipped_message_id_is_found_at_any_position() {
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"a":["}",{"id":9}]}}"#, answer(7)),
            (r#" {"result":{"method":"x","text":"\"}]{,\\"} , "jsonrpc":"2.0", "id" : 7 }"#, answer(7)),
            (r#"{"error":{"code":1,"message":"m"},"id":-7}"#, answer(-7)),
            (r#"{"method":"m","params":{},"id":7}"#, SkippedMessage::Request(RequestId::Integer(7))),
            (
                r#"{"params":{},"id":"a\"\u0062 ","method":"m"}"#,
                SkippedMessage::Request(RequestId::String("a\"b ".to_owned())),
            ),
            (r#"{"method":"m","params":{"id":7}}"#, SkippedMessage::Other),
            (r#"{"id":"7","result":{}}"#, SkippedMessage::Answer(RequestId::String("7".to_owned()))),
            (r#"{"id":99999999999999999999999999,"result":{}}"#, SkippedMessage::Other),
            (r#"{"id":{},"method":"m"}"#, SkippedMessage::Other),
            (r#"{"id":7,"result":{}"#, SkippedMessage::Unknown),
            (r#"{"id":7,"result":""#, SkippedMessage::Unknown),
            (r#"[{"id":7,"result":{}}]"#, SkippedMessage::Unknown),
            ("rubbish", SkippedMessage::Unknown),
        ] {
            for piece in 1..=message.len() {
                assert_eq!(parse_in_pieces(message, piece), expected, "{message} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn skip_parser_does_not_buffer_the_message() {
        let mut skipped = SkipParser::default();
        skipped.see(format!("{{\"{}", "x".repeat(1 << 20)).as_bytes());
        assert!(skipped.word.capacity() < 100);
        let mut skipped = SkipParser::default();
        skipped.see(format!("{{\"id\":\"{}", "x".repeat(1 << 20)).as_bytes());
        assert!(skipped.word.capacity() < 16 << 10);
    }

    #[test]
    fn longest_allowed_id_is_found_with_and_without_escapes() {
        let long = "a".repeat(ID_BYTES_MAX);
        let request = |id: &str| parse_in_pieces(&format!(r#"{{"id":"{id}","method":"m"}}"#), 7);
        for written in [&long, &"\\u0061".repeat(ID_BYTES_MAX)] {
            assert_eq!(request(written), SkippedMessage::Request(RequestId::String(long.clone())));
        }
        assert_eq!(request(&format!("{long}a")), SkippedMessage::Other);
    }
}
