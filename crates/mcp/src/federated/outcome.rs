//! Finds the outcome of a call in the bytes of its response, while they pass by.

use alloc::vec::Vec;

use memchr::memmem;

/// Finds the outcome of a call. The value needs the same small memory for responses of any size, because it stores
/// only short names and values.
///
/// ```
/// use thruway_mcp::federated::{CallOutcome, OutcomeScan};
///
/// let mut scan = OutcomeScan::of_json();
/// scan.read(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"is"#);
/// scan.read(br#"Error":true}}"#);
/// assert_eq!(scan.outcome(), Some((CallOutcome::ToolError, 63)));
/// ```
#[derive(Clone, Debug)]
pub struct OutcomeScan {
    message: MessageScan,
    /// The outcome in the last complete response, and the size of this response in bytes.
    found: Option<(CallOutcome, usize)>,
    /// The current line of an event stream. `None` if the response is a single JSON message.
    line: Option<Line>,
    /// `true` after a carriage return. A line feed then belongs to the same line end.
    is_after_return: bool,
}

/// The outcome of a call, according to its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOutcome {
    /// The response is a result.
    Ok,
    /// The result contains questions for the client (`input_required`).
    InputRequired,
    /// The tool reported an error (`isError`).
    ToolError,
    /// The response is an error with this code, if the code is valid.
    Error(Option<i64>),
}

/// The current line of an event stream.
#[derive(Clone, Debug)]
enum Line {
    /// The name of the field is incomplete. Contains the bytes so far.
    Name(Vec<u8>),
    /// The line contains a part of a message. `true` before its first byte, which can be a space.
    Data(bool),
    Other,
}

/// Reads one JSON message byte by byte.
#[derive(Clone, Default, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each value is independent of the others")]
struct MessageScan {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// The last string, number or literal at the first two levels. Strings begin with a quote. Contains at most
    /// `TOKEN_BYTES_MAX` bytes.
    token: Vec<u8>,
    /// The current members at the first two levels.
    members: [Member; 2],
    has_result: bool,
    has_error: bool,
    is_tool_error: bool,
    is_input_required: bool,
    code: Option<i64>,
    /// `true` inside of the string `requestState` of the result.
    is_in_state: bool,
    bytes: usize,
}

/// The name of a member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Member {
    #[default]
    Other,
    Result,
    Error,
    IsError,
    ResultType,
    RequestState,
    Code,
}

impl CallOutcome {
    /// Returns the outcome in a complete response message if it is a failure: [`Self::ToolError`] or
    /// [`Self::Error`]. Returns `None` for other messages.
    ///
    /// ```
    /// use thruway_mcp::federated::CallOutcome;
    ///
    /// let failed = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}"#;
    /// assert_eq!(CallOutcome::failure_in(failed), Some(CallOutcome::Error(Some(-32602))));
    /// assert_eq!(CallOutcome::failure_in(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), None);
    /// ```
    pub fn failure_in(message: &[u8]) -> Option<Self> {
        // A search in the text is faster than a scan, and most messages contain neither `error` nor `isError`.
        memmem::find(message, b"rror\"")?;
        let mut scan = OutcomeScan::of_json();
        scan.read(message);
        let (outcome, _) = scan.outcome()?;
        matches!(outcome, Self::ToolError | Self::Error(_)).then_some(outcome)
    }
}

impl OutcomeScan {
    /// Returns a scan for a response that is one JSON message.
    pub fn of_json() -> Self {
        Self { message: MessageScan::default(), found: None, line: None, is_after_return: false }
    }

    /// Returns a scan for a response that is an event stream. The last message of the stream that is a JSON-RPC
    /// response counts.
    pub fn of_events() -> Self {
        Self { line: Some(Line::Name(Vec::new())), ..Self::of_json() }
    }

    /// Reads the next bytes of the response.
    pub fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.read_byte(*byte);
        }
    }

    /// Reads bytes of the response up to the next start or end of the `requestState` of the result. Returns the
    /// number of these bytes. The start is after the first quotation mark, and the end is after the last one. If
    /// `bytes` contains neither, reads all bytes.
    pub fn read_to_state(&mut self, bytes: &[u8]) -> usize {
        let was_in_state = self.message.is_in_state;
        for (at, byte) in bytes.iter().enumerate() {
            self.read_byte(*byte);
            if self.message.is_in_state != was_in_state {
                return at + 1;
            }
        }
        bytes.len()
    }

    /// Returns `true` if the next byte belongs to the `requestState` of the result.
    pub const fn is_in_state(&self) -> bool {
        self.message.is_in_state
    }

    fn read_byte(&mut self, byte: u8) {
        match self.line.take() {
            None => self.read_message_byte(byte),
            Some(line) if byte == b'\n' && self.is_after_return => self.line = Some(line),
            Some(line) => self.line = Some(self.read_line_byte(line, byte)),
        }
        self.is_after_return = byte == b'\r';
    }

    /// Returns the outcome and the size of the response message in bytes. Returns `None` if the message is
    /// incomplete.
    pub const fn outcome(&self) -> Option<(CallOutcome, usize)> {
        self.found
    }

    fn read_line_byte(&mut self, line: Line, byte: u8) -> Line {
        match line {
            Line::Name(name) if matches!(byte, b'\n' | b'\r') && name.is_empty() => {
                // An empty line ends the event.
                self.message = MessageScan::default();
                Line::Name(name)
            }
            _ if matches!(byte, b'\n' | b'\r') => Line::Name(Vec::new()),
            Line::Name(name) if byte == b':' => {
                if name == b"data" {
                    Line::Data(true)
                } else {
                    Line::Other
                }
            }
            Line::Name(name) if name.len() > b"data".len() => Line::Other,
            Line::Name(mut name) => {
                name.push(byte);
                Line::Name(name)
            }
            Line::Data(true) if byte == b' ' => Line::Data(false),
            Line::Data(_) => {
                self.read_message_byte(byte);
                Line::Data(false)
            }
            Line::Other => Line::Other,
        }
    }

    fn read_message_byte(&mut self, byte: u8) {
        self.message.read(byte);
        if self.message.depth == 0
            && let Some(outcome) = self.message.outcome()
        {
            self.found = Some((outcome, self.message.bytes));
        }
    }
}

impl MessageScan {
    fn read(&mut self, byte: u8) {
        self.bytes += 1;
        if self.is_in_string {
            self.read_in_string(byte);
            return;
        }
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.is_in_state = self.depth == 2 && self.members == [Member::Result, Member::RequestState];
                self.token.clear();
                self.push(byte);
            }
            b'{' | b'[' => self.open(),
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' => self.begin_member(),
            b',' => {
                self.end_value();
                // The next string is a name, not a value of the same member.
                self.set_member(Member::Other);
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => self.push(byte),
        }
    }

    fn read_in_string(&mut self, byte: u8) {
        if !self.is_escaped && byte == b'"' {
            self.is_in_string = false;
            self.is_in_state = false;
            return;
        }
        self.is_escaped = !self.is_escaped && byte == b'\\';
        self.push(byte);
    }

    fn push(&mut self, byte: u8) {
        if self.depth <= self.members.len() && self.token.len() < TOKEN_BYTES_MAX {
            self.token.push(byte);
        }
    }

    fn open(&mut self) {
        if self.depth == 1 {
            self.has_result |= self.members[0] == Member::Result;
            self.has_error |= self.members[0] == Member::Error;
        }
        self.depth += 1;
        self.token.clear();
        self.set_member(Member::Other);
    }

    /// Sets the current member of the innermost object.
    fn set_member(&mut self, member: Member) {
        if let Some(current) = self.depth.checked_sub(1).and_then(|level| self.members.get_mut(level)) {
            *current = member;
        }
    }

    fn begin_member(&mut self) {
        let member = match self.token.as_slice() {
            b"\"result" if self.depth == 1 => Member::Result,
            b"\"error" if self.depth == 1 => Member::Error,
            b"\"isError" if self.depth == 2 => Member::IsError,
            b"\"resultType" if self.depth == 2 => Member::ResultType,
            b"\"requestState" if self.depth == 2 => Member::RequestState,
            b"\"code" if self.depth == 2 => Member::Code,
            _ => Member::Other,
        };
        self.set_member(member);
        self.token.clear();
    }

    fn end_value(&mut self) {
        if self.depth != self.members.len() {
            return;
        }
        match self.members {
            [Member::Result, Member::IsError] => self.is_tool_error |= self.token == b"true",
            [Member::Result, Member::ResultType] => {
                self.is_input_required |= self.token == b"\"input_required";
            }
            [Member::Error, Member::Code] => {
                self.code = core::str::from_utf8(&self.token).ok().and_then(|code| code.parse().ok());
            }
            _ => {}
        }
        self.token.clear();
    }

    const fn outcome(&self) -> Option<CallOutcome> {
        if self.has_error {
            Some(CallOutcome::Error(self.code))
        } else if !self.has_result {
            None
        } else if self.is_tool_error {
            Some(CallOutcome::ToolError)
        } else if self.is_input_required {
            Some(CallOutcome::InputRequired)
        } else {
            Some(CallOutcome::Ok)
        }
    }
}

/// Maximum number of stored bytes of a string, number or literal.
const TOKEN_BYTES_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// Scans a response in two parts, split at each position.
    fn outcome(new: fn() -> OutcomeScan, response: &str) -> Option<(CallOutcome, usize)> {
        let bytes = response.as_bytes();
        let scan = |split: usize| {
            let mut scan = new();
            scan.read(&bytes[..split]);
            scan.read(&bytes[split..]);
            scan.outcome()
        };
        let whole = scan(0);
        assert!((0..=bytes.len()).all(|split| scan(split) == whole), "{response}");
        whole
    }

    #[test]
    fn outcome_is_found_at_the_top_levels_only() {
        for (response, expected) in [
            (r#"{"id":1,"result":{"content":[{"isError":true}],"a":{"isError":true}}}"#, CallOutcome::Ok),
            (r#"{"id":1,"result":{"content":[],"isError":false}}"#, CallOutcome::Ok),
            (r#"{"isError":true,"result":{"text":"\",\"isError\":true"}}"#, CallOutcome::Ok),
            (r#"{"id":1,"result":{"isError" : true , "content":[]}}"#, CallOutcome::ToolError),
            (r#"{"result":{"resultType":"input_required"},"id":1}"#, CallOutcome::InputRequired),
            (r#"{"id":1,"error":{"message":"isError","code":-32602}}"#, CallOutcome::Error(Some(-32602))),
            (r#"{"id":1,"error":{"message":"x","data":{"code":1}}}"#, CallOutcome::Error(None)),
            (r#"{"result":{}}"#, CallOutcome::Ok),
        ] {
            assert_eq!(
                outcome(OutcomeScan::of_json, response),
                Some((expected, response.len())),
                "{response}"
            );
        }
    }

    #[test]
    fn other_and_incomplete_messages_have_no_outcome() {
        for response in
            ["", "garbage", "[]", "{}", r#"{"result":1}"#, r#"{"id":1,"result":{"content":[]}"#, "}}]]\\"]
        {
            assert_eq!(outcome(OutcomeScan::of_json, response), None, "{response}");
        }
    }

    /// Returns the values of `requestState` with their last quotation marks, read in parts of `size` bytes.
    fn states(mut scan: OutcomeScan, response: &str, size: usize) -> Vec<String> {
        let (mut states, mut state) = (Vec::new(), String::new());
        for mut part in response.as_bytes().chunks(size) {
            while !part.is_empty() {
                let was_in_state = scan.is_in_state();
                let (read, rest) = part.split_at(scan.read_to_state(part));
                part = rest;
                if was_in_state {
                    state += core::str::from_utf8(read).unwrap();
                    if !scan.is_in_state() {
                        states.push(core::mem::take(&mut state));
                    }
                }
            }
        }
        states
    }

    #[test]
    fn state_of_the_result_is_found() {
        for (response, expected) in [
            (r#"{"id":1,"result":{"resultType":"input_required","requestState":"abc"}}"#, &["abc\""][..]),
            (r#"{"result":{"requestState" : "a\"b\\" ,"other":"x"},"id":1}"#, &["a\\\"b\\\\\""]),
            (r#"{"result":{"requestState":"","requestState":"b"}}"#, &["\"", "b\""]),
            (r#"{"result":{"requestState":{"requestState":"x"},"a":["requestState","b"]}}"#, &[]),
            (r#"{"result":{"inputRequests":{"requestState":"x"}},"requestState":"y"}"#, &[]),
            (r#"{"error":{"requestState":"x"},"id":1}"#, &[]),
        ] {
            for size in 1..=response.len() {
                assert_eq!(states(OutcomeScan::of_json(), response, size), expected, "{response}");
                let events = format!("data: {{\"method\":\"m\"}}\n\ndata: {response}\n\n");
                assert_eq!(states(OutcomeScan::of_events(), &events, size), expected, "{events}");
            }
        }
    }

    #[test]
    fn last_response_of_an_event_stream_counts() {
        let message = r#"{"id":1,"result":{"isError":true}}"#;
        let progress = r#"{"method":"notifications/progress","params":{"error":{}}}"#;
        let stream =
            format!(": comment\n\nevent: message\ndata: {progress}\n\nid: 1\ndata:{message}\n\n:\n\n");
        let expected = Some((CallOutcome::ToolError, message.len()));
        assert_eq!(outcome(OutcomeScan::of_events, &stream), expected);
        assert_eq!(outcome(OutcomeScan::of_events, &stream.replace('\n', "\r\n")), expected);
        // Regression test: the second byte of a line end ended the event.
        let two_lines = "data: {\"id\":1,\ndata: \"result\":{}}\n\n";
        for end in ["\n", "\r", "\r\n"] {
            let stream = two_lines.replace('\n', end);
            assert_eq!(outcome(OutcomeScan::of_events, &stream), Some((CallOutcome::Ok, 20)), "{stream:?}");
        }
        let only_progress = format!("data: {progress}\n\ndata:");
        assert_eq!(outcome(OutcomeScan::of_events, &only_progress), None);
    }
}
