//! Reads the body of a response: one message, or an event stream that contains the message.

use super::reading::{Reading, read};

/// The part of a body that has arrived so far.
#[derive(Debug, Default)]
pub(super) struct Content {
    form: Form,
    /// Unparsed bytes of the message, or of a line of an event stream.
    unread: Vec<u8>,
    /// The data of the current event.
    data: Vec<u8>,
    /// The first JSON-RPC response in an event stream.
    found: Option<Reading>,
    is_too_long: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Form {
    /// No byte of the body has arrived yet.
    #[default]
    Unknown,
    /// The body begins with `{` or `[`, so it is a single message.
    Object,
    /// The body begins with another byte, so it is an event stream.
    Events,
}

impl Content {
    /// Begins a new body.
    pub(super) fn begin(&mut self) {
        self.form = Form::Unknown;
        self.unread.clear();
        self.data.clear();
        self.found = None;
        self.is_too_long = false;
    }

    /// Processes the next part of the body.
    pub(super) fn take(&mut self, piece: &[u8]) {
        if self.form == Form::Unknown {
            let Some(first) = piece.trim_ascii_start().first() else { return };
            self.form = if matches!(first, b'{' | b'[') { Form::Object } else { Form::Events };
        }
        match self.form {
            Form::Events => self.take_lines(piece),
            _ => self.keep(piece),
        }
    }

    /// Ends the body. Returns the JSON-RPC response, and `true` if this response came in an event stream.
    pub(super) fn end(&mut self) -> (Reading, bool) {
        let is_stream = self.form == Form::Events && self.found.is_some();
        let reading = match self.found.take() {
            _ if self.is_too_long => Reading::NotJsonRpc,
            Some(found) => found,
            None if self.form == Form::Object => read(&self.unread),
            None => Reading::NotJsonRpc,
        };
        (reading, is_stream)
    }

    fn keep(&mut self, piece: &[u8]) {
        self.is_too_long |= self.unread.len() + self.data.len() + piece.len() > MESSAGE_BYTES_MAX;
        if !self.is_too_long {
            self.unread.extend_from_slice(piece);
        }
    }

    fn take_lines(&mut self, mut piece: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            if self.unread.is_empty() {
                self.take_line(&piece[..end]);
            } else {
                self.keep(&piece[..end]);
                let line = std::mem::take(&mut self.unread);
                self.take_line(&line);
                self.unread = line;
                self.unread.clear();
            }
            piece = &piece[end + 1..];
        }
        self.keep(piece);
    }

    /// Processes a line of an event stream. Only data lines and empty lines have an effect.
    fn take_line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(data) = line.strip_prefix(b"data:") {
            if self.data.len() + data.len() > MESSAGE_BYTES_MAX {
                self.is_too_long = true;
                return;
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.data.push(b'\n');
        } else if line.is_empty() && !self.data.is_empty() {
            let reading = read(&self.data);
            self.data.clear();
            if self.found.is_none() && matches!(reading, Reading::Response { .. }) {
                self.found = Some(reading);
            }
        }
    }
}

/// Maximum length of a message in bytes. A longer response is certainly an error of the server.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    fn read_in_pieces(text: &str, piece: usize) -> (Reading, bool) {
        let mut content = Content::default();
        content.begin();
        text.as_bytes().chunks(piece).for_each(|piece| content.take(piece));
        content.end()
    }

    #[test]
    fn mcp_response_is_found_in_json_and_event_streams_in_any_pieces() {
        let good = Reading::Response { id: Some(1), outcome: Ok(()) };
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
        for (text, is_stream) in [
            (ANSWER.to_owned(), false),
            (format!("event: message\ndata: {ANSWER}\n\n"), true),
            (format!("id: 0\r\ndata:\r\n\r\n: hello\r\ndata:{ANSWER}\r\n\r\n"), true),
            (format!("data: {notification}\n\ndata: {ANSWER}\n\n"), true),
            (format!("data: {}\ndata: {}\n\n", &ANSWER[..16], &ANSWER[16..]), true),
        ] {
            for piece in 1..=text.len() {
                assert_eq!(read_in_pieces(&text, piece), (good.clone(), is_stream), "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn body_without_a_response_is_invalid() {
        for text in ["", " ", "<html>", "data: hello\n\n", ": only a comment\n\n", "[]"] {
            assert_eq!(read_in_pieces(text, 3).0, Reading::NotJsonRpc, "{text:?}");
        }
        let unfinished = format!("data: {ANSWER}\n");
        assert_eq!(read_in_pieces(&unfinished, 8).0, Reading::NotJsonRpc);
    }

    #[test]
    fn endless_message_is_not_buffered() {
        let mut content = Content::default();
        content.begin();
        for _ in 0..48 {
            content.take(&vec![b'{'; 1 << 20]);
        }
        assert!(content.unread.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(content.end().0, Reading::NotJsonRpc);
    }
}
