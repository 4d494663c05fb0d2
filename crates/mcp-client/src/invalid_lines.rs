//! Lines and events from a server that are not valid messages. The client logs these lines, and fails a
//! call if a line was probably the answer to that call.

use std::time::Duration;

use thruway_mcp::schema::RequestId;
use thruway_mcp::stdio::{SkippedMessage, passed};
use tokio::time::Instant;

/// The invalid lines of one stream.
#[derive(Default, Debug)]
pub(super) struct InvalidLines {
    /// Number of invalid lines since the last valid message.
    pub(super) in_a_row: usize,
    /// Start of the current [`LOG_PERIOD`]. `logged` counts the lines that were logged in this period.
    since: Option<Instant>,
    logged: u32,
    unlogged: u64,
    pub(super) has_byte_order_mark: bool,
}

/// The kind of message that the server probably meant to send with an invalid line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineIntent {
    /// The answer to the request with this id.
    Answer(i64),
    /// A message, or a part of a message, that could be the answer to any request.
    AnyMessage,
    /// A notification, a request, or text that is not a message.
    Other,
}

impl InvalidLines {
    /// `true` if the server has sent so many invalid lines in a row that it probably uses another protocol.
    pub(super) const fn are_too_many(&self) -> bool {
        self.in_a_row > INVALID_LINES_MAX
    }

    /// Logs a line of the server with the name `server`. Logs only some of many invalid lines.
    pub(super) fn note(&mut self, line: &[u8], server: Option<&str>) {
        self.in_a_row += 1;
        if self.since.is_none_or(|since| since.elapsed() >= LOG_PERIOD) {
            self.since = Some(Instant::now());
            self.logged = 0;
            if self.unlogged > 0 {
                tracing::warn!(server, "did not log {} further invalid lines from the server", self.unlogged);
                self.unlogged = 0;
            }
        }
        if self.logged == LOGGED_LINES_MAX {
            self.unlogged += 1;
            return;
        }
        self.logged += 1;
        let (length, shown) = (line.len(), shown(line));
        tracing::warn!(
            server,
            "ignored a line of {length} bytes from the server, because it is not a JSON-RPC message \
             in UTF-8: {shown}"
        );
    }
}

/// Guesses the kind of message that the server meant to send with an invalid line. Programs also print
/// other text, even JSON. Such text must not fail a call.
pub(super) fn meant(line: &[u8]) -> LineIntent {
    // UTF-16 text contains a zero byte for each ASCII character.
    let text: Vec<_> = line.iter().copied().filter(|byte| *byte != 0).collect();
    let text = text.trim_ascii();
    let contains = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    let has_version = contains(b"\"jsonrpc\"");
    let is_object = text.starts_with(b"{");
    let has_outcome = is_object && (contains(b"\"result\"") || contains(b"\"error\""));
    match passed(text) {
        // This client uses only numbers as request ids.
        SkippedMessage::Answer(RequestId::Integer(id)) if is_object && (has_version || has_outcome) => {
            LineIntent::Answer(id)
        }
        SkippedMessage::Request(_) | SkippedMessage::Other if is_object => LineIntent::Other,
        // Some servers print the requests that they receive, as debug output.
        _ if (has_version && !contains(b"\"method\"")) || is_header_of_length(text) => LineIntent::AnyMessage,
        _ => LineIntent::Other,
    }
}

/// `true` for the header `Content-Length` of the Language Server Protocol, whose messages do not end with a
/// line feed.
fn is_header_of_length(line: &[u8]) -> bool {
    let name = line.get(..CONTENT_LENGTH.len());
    name.is_some_and(|name| name.eq_ignore_ascii_case(CONTENT_LENGTH))
}

/// Returns the beginning of a line for the log, in printable ASCII.
fn shown(line: &[u8]) -> String {
    let shown = line[..line.len().min(SHOWN_BYTES_MAX)].escape_ascii();
    if line.len() > SHOWN_BYTES_MAX { format!("`{shown}` …") } else { format!("`{shown}`") }
}

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const CONTENT_LENGTH: &[u8] = b"Content-Length:";

/// Maximum number of invalid lines in a row. A few invalid lines are normal, because programs print text
/// when they start.
const INVALID_LINES_MAX: usize = 1000;

/// Maximum number of invalid lines that are logged in one [`LOG_PERIOD`].
const LOGGED_LINES_MAX: u32 = 10;
const LOG_PERIOD: Duration = Duration::from_mins(1);

/// Maximum number of bytes of an invalid line in the log.
const SHOWN_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_line_is_assigned_to_the_call_it_answers() {
        let utf16: Vec<u8> =
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.bytes().flat_map(|byte| [byte, 0]).collect();
        for (line, expected) in [
            (&b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\xff\"}}"[..], LineIntent::Answer(7)),
            (br#"{"id":7,"result":{}}"#, LineIntent::Answer(7)),
            (br#"{"jsonrpc":"2.0","id":7,"result":{}} {}"#, LineIntent::Answer(7)),
            (br#"{"jsonrpc":"2.0","id":7,"result":{"#, LineIntent::AnyMessage),
            (&utf16, LineIntent::Answer(7)),
            (br#"  "jsonrpc": "2.0","#, LineIntent::AnyMessage),
            (br#"data: {"jsonrpc":"2.0","id":7,"result":{}}"#, LineIntent::AnyMessage),
            (b"content-length: 42", LineIntent::AnyMessage),
            (b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}", LineIntent::Other),
            (br#"{"level":30,"id":7,"msg":"started"}"#, LineIntent::Other),
            (b"{info} started", LineIntent::Other),
            (br#"[debug] <- {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}"#, LineIntent::Other),
            (b"Server is running on stdio", LineIntent::Other),
        ] {
            assert_eq!(meant(line), expected, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn displayed_line_is_shortened_and_escaped() {
        assert_eq!(shown(b"a\xff\x1b[2J\r"), r"`a\xff\x1b[2J\r`");
        let long = shown(&vec![b'x'; 1 << 20]);
        assert!(long.len() < 2 * SHOWN_BYTES_MAX && long.ends_with('…'), "{long}");
    }
}
