//! What is seen of a message that is too large to be kept: whose answer it is.
//!
//! Octets pass in pieces of any size; what they say is not checked.

/// A message that passes.
#[derive(Default, Debug)]
pub(super) struct Passing {
    /// How many objects and arrays are open.
    depth: usize,
    text: Text,
    /// The name or the value in the message itself that is being read: as much of it as an id may have.
    word: Vec<u8>,
    is_string: bool,
    member: Member,
    id: Option<i64>,
    has_method: bool,
    /// It is not one object.
    is_other: bool,
}

/// What has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passed {
    /// The answer to this request.
    Answer(i64),
    /// A message that is no answer to any request of ours.
    Other,
    /// No message: nobody can tell what it was.
    Unknown,
}

/// Returns what a whole line was, whether or not it is valid.
pub(crate) fn passed(line: &[u8]) -> Passed {
    let mut passing = Passing::default();
    passing.see(line);
    passing.end()
}

/// Whether octets are those of a string.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Text {
    #[default]
    Outside,
    Inside,
    Escaped,
}

/// Which member of the message is being read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Member {
    /// Its name is.
    #[default]
    Name,
    Id,
    Method,
    Other,
}

impl Passing {
    pub(super) fn see(&mut self, octets: &[u8]) {
        for octet in octets {
            self.see_one(*octet);
        }
    }

    /// What it was, if this was all.
    pub(super) fn end(&self) -> Passed {
        let is_whole = !self.is_other && self.depth == 0 && self.text == Text::Outside;
        match self.id {
            _ if !is_whole => Passed::Unknown,
            Some(id) if !self.has_method => Passed::Answer(id),
            _ => Passed::Other,
        }
    }

    fn see_one(&mut self, octet: u8) {
        match (self.text, octet) {
            (Text::Escaped, _) => self.text = Text::Inside,
            (Text::Inside, b'\\') => self.text = Text::Escaped,
            (Text::Inside, b'"') => self.text = Text::Outside,
            (Text::Inside, _) => self.note(octet),
            (Text::Outside, b'"') => {
                self.text = Text::Inside;
                self.is_string = true;
            }
            (Text::Outside, b'{' | b'[') => {
                self.is_other |= self.depth == 0 && octet == b'[';
                self.depth += 1;
            }
            (Text::Outside, b'}' | b']') => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            (Text::Outside, b':') => self.begin_value(),
            (Text::Outside, b',') => self.end_member(),
            (Text::Outside, octet) if octet.is_ascii_whitespace() => {}
            (Text::Outside, _) => {
                self.is_other |= self.depth == 0;
                self.note(octet);
            }
        }
    }

    fn note(&mut self, octet: u8) {
        if self.depth == 1 && self.word.len() < WORD_BYTES_MAX {
            self.word.push(octet);
        }
    }

    fn begin_value(&mut self) {
        if self.depth == 1 {
            self.member = match &*self.word {
                b"id" => Member::Id,
                b"method" => Member::Method,
                _ => Member::Other,
            };
            self.begin_word();
        }
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        self.has_method |= self.member == Member::Method;
        if self.member == Member::Id && !self.is_string {
            self.id = std::str::from_utf8(&self.word).ok().and_then(|id| id.parse().ok());
        }
        self.member = Member::Name;
        self.begin_word();
    }

    fn begin_word(&mut self) {
        self.word.clear();
        self.is_string = false;
    }
}

/// Longer than any id of ours, and than the names that matter.
const WORD_BYTES_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_in_pieces(message: &str, piece: usize) -> Passed {
        let mut passing = Passing::default();
        for octets in message.as_bytes().chunks(piece) {
            passing.see(octets);
        }
        passing.end()
    }

    #[test]
    fn whose_answer_it_is_shows_wherever_the_id_stands() {
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"a":["}",{"id":9}]}}"#, Passed::Answer(7)),
            (
                r#" {"result":{"method":"x","text":"\"}]{,\\"} , "jsonrpc":"2.0", "id" : 7 }"#,
                Passed::Answer(7),
            ),
            (r#"{"error":{"code":1,"message":"m"},"id":-7}"#, Passed::Answer(-7)),
            (r#"{"method":"m","params":{},"id":7}"#, Passed::Other),
            (r#"{"method":"m","params":{"id":7}}"#, Passed::Other),
            (r#"{"id":"7","result":{}}"#, Passed::Other),
            (r#"{"id":99999999999999999999999999,"result":{}}"#, Passed::Other),
            (r#"{"id":7,"result":{}"#, Passed::Unknown),
            (r#"{"id":7,"result":""#, Passed::Unknown),
            (r#"[{"id":7,"result":{}}]"#, Passed::Unknown),
            ("rubbish", Passed::Unknown),
        ] {
            for piece in 1..=message.len() {
                assert_eq!(passed_in_pieces(message, piece), expected, "{message} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn what_is_seen_takes_no_room() {
        let mut passing = Passing::default();
        passing.see(format!("{{\"{}", "x".repeat(1 << 20)).as_bytes());
        assert!(passing.word.capacity() < 100);
    }
}
