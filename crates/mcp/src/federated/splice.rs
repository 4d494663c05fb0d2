//! Replaces the name of the tool and the state in a call without parsing the rest of the message.
//!
//! The scanner reads JSON strictly (RFC 8259), and finds each member that it knows exactly once. So another
//! parser cannot find another name in the same bytes.

use alloc::vec::Vec;
use core::ops::Range;

use crate::schema::TASKS_EXTENSION;

/// A `tools/call` request of revision 2026-07-28 in which a gateway can replace the name of the tool and the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScannedCall<'m> {
    message: &'m str,
    /// Position of the JSON-RPC id: a string with its quotation marks, or a number.
    id: Range<usize>,
    /// Position of the parameters.
    params: Range<usize>,
    parts: ParamsScan,
}

/// The parts of the parameters. All positions of strings exclude the quotation marks.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ParamsScan {
    name: Range<usize>,
    /// Position of `requestState`.
    request_state: Option<Range<usize>>,
    meta: MetaScan,
}

/// The parts of `_meta`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct MetaScan {
    /// Position of the revision.
    version: Range<usize>,
    /// `true` if the client supports tasks.
    declares_tasks: bool,
}

impl<'m> ScannedCall<'m> {
    /// Scans a message. Returns `None` unless all of these conditions hold:
    ///
    /// - The message is a JSON-RPC request with the members `jsonrpc`, `id`, `method` and `params`, and without
    ///   other members. The method is `tools/call`.
    /// - The parameters consist of `name`, `_meta` and possibly `arguments`, `inputResponses` and `requestState`.
    /// - `_meta` contains a revision and an object of client capabilities.
    /// - No member appears twice. The names of members, the name of the tool, the state and the revision contain
    ///   no escape sequences.
    pub fn scan(message: &'m [u8]) -> Option<Self> {
        let message = core::str::from_utf8(message).ok()?;
        let mut scanner = Scanner { bytes: message.as_bytes(), at: 0 };
        let (mut id, mut params, mut known) = (None, None, 0u8);
        scanner.object(|scanner, key| {
            match key {
                b"jsonrpc" => scanner.exact(b"\"2.0\"").then(|| known |= 1 << 0),
                b"method" => scanner.exact(b"\"tools/call\"").then(|| known |= 1 << 1),
                b"id" if id.is_none() => scanner.id().map(|found| id = Some(found)),
                b"params" if params.is_none() => {
                    scanner.whitespace();
                    let start = scanner.at;
                    scanner.params().map(|found| params = Some((start..scanner.at, found)))
                }
                _ => None,
            }?;
            Some(())
        })?;
        scanner.whitespace();
        let (params, parts) = params?;
        let is_complete = scanner.at == scanner.bytes.len() && known == 0b11;
        is_complete.then_some(Self { message, id: id?, params, parts })
    }

    /// Returns the JSON-RPC id: a JSON string or a JSON number.
    pub fn id(&self) -> &'m str {
        &self.message[self.id.clone()]
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &'m str {
        &self.message[self.parts.name.clone()]
    }

    /// Returns the parameters, as JSON.
    pub fn params(&self) -> &'m str {
        &self.message[self.params.clone()]
    }

    /// Returns the revision in `_meta`.
    pub fn version(&self) -> &'m str {
        &self.message[self.parts.meta.version.clone()]
    }

    /// Returns the `requestState`, if the request is a retry with a state.
    pub fn request_state(&self) -> Option<&'m str> {
        self.parts.request_state.clone().map(|state| &self.message[state])
    }

    /// Returns `true` if the client supports tasks. The server can then answer with a task.
    pub const fn declares_tasks(&self) -> bool {
        self.parts.meta.declares_tasks
    }

    /// Returns the message with `name` as the name of the tool. Returns `None` if a JSON string must escape a
    /// character of `name`.
    pub fn with_name(&self, name: &str) -> Option<Vec<u8>> {
        is_plain(name).then(|| self.with(&mut [(self.parts.name.clone(), name)]))
    }

    /// Returns the message with `name` as the name of the tool, and with `state` as the `requestState`. Returns
    /// `None` if the message has no `requestState`, or if a JSON string must escape a character of `name`.
    pub fn with_name_and_state(&self, name: &str, state: &str) -> Option<Vec<u8>> {
        let place = self.parts.request_state.clone().filter(|_| is_plain(name))?;
        let quoted = serde_json::to_string(state).ok()?;
        let state = &quoted[1..quoted.len() - 1];
        Some(self.with(&mut [(self.parts.name.clone(), name), (place, state)]))
    }

    /// Returns the message with other text at these positions.
    fn with(&self, changes: &mut [(Range<usize>, &str)]) -> Vec<u8> {
        changes.sort_by_key(|(place, _)| place.start);
        let added: usize = changes.iter().map(|(_, text)| text.len()).sum();
        let (mut output, mut at) = (Vec::with_capacity(self.message.len() + added), 0);
        for (place, text) in changes {
            output.extend_from_slice(&self.message.as_bytes()[at..place.start]);
            output.extend_from_slice(text.as_bytes());
            at = place.end;
        }
        output.extend_from_slice(&self.message.as_bytes()[at..]);
        output
    }
}

/// Returns `true` if a JSON string can contain `text` without escape sequences.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

struct Scanner<'m> {
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Scanner<'m> {
    fn params(&mut self) -> Option<ParamsScan> {
        let (mut name, mut meta, mut request_state) = (None, None, None);
        let (mut has_arguments, mut has_responses) = (false, false);
        self.object(|scanner, key| match key {
            b"name" if name.is_none() => scanner.plain_string().map(|found| name = Some(found)),
            b"_meta" if meta.is_none() => scanner.meta().map(|found| meta = Some(found)),
            b"requestState" if request_state.is_none() => {
                scanner.plain_string().map(|found| request_state = Some(found))
            }
            b"arguments" if !has_arguments => {
                has_arguments = true;
                scanner.value(0)
            }
            b"inputResponses" if !has_responses => {
                has_responses = true;
                scanner.value(0)
            }
            _ => None,
        })?;
        Some(ParamsScan { name: name?, request_state, meta: meta? })
    }

    fn meta(&mut self) -> Option<MetaScan> {
        let (mut version, mut declares_tasks) = (None, None);
        self.object(|scanner, key| match key {
            VERSION if version.is_none() => scanner.plain_string().map(|found| version = Some(found)),
            CAPABILITIES if declares_tasks.is_none() => {
                scanner.capabilities().map(|found| declares_tasks = Some(found))
            }
            VERSION | CAPABILITIES => None,
            _ => scanner.value(0),
        })?;
        Some(MetaScan { version: version?, declares_tasks: declares_tasks? })
    }

    /// Scans the capabilities of the client. Returns `true` if they contain the extension for tasks.
    fn capabilities(&mut self) -> Option<bool> {
        let mut declares_tasks = false;
        self.object(|scanner, key| match key {
            b"extensions" => scanner.object(|scanner, key| {
                declares_tasks |= key == TASKS_EXTENSION.as_bytes();
                scanner.value(0)
            }),
            _ => scanner.value(0),
        })?;
        Some(declares_tasks)
    }

    /// Scans an object. Calls `member` after each name and colon, with the name. `member` scans the value.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'m [u8]) -> Option<()>) -> Option<()> {
        self.begin(b'{')?;
        if self.ends(b'}') {
            return Some(());
        }
        loop {
            let name = self.plain_string()?;
            self.begin(b':')?;
            member(self, &self.bytes[name])?;
            if self.ends(b'}') {
                return Some(());
            }
            self.begin(b',')?;
        }
    }

    /// Scans any value. `depth` is the number of objects and arrays around the value.
    fn value(&mut self, depth: usize) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        self.whitespace();
        match *self.bytes.get(self.at)? {
            b'{' => self.members(depth),
            b'[' => self.elements(depth),
            b'"' => self.string().map(drop),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn members(&mut self, depth: usize) -> Option<()> {
        self.begin(b'{')?;
        if self.ends(b'}') {
            return Some(());
        }
        loop {
            self.string()?;
            self.begin(b':')?;
            self.value(depth + 1)?;
            if self.ends(b'}') {
                return Some(());
            }
            self.begin(b',')?;
        }
    }

    fn elements(&mut self, depth: usize) -> Option<()> {
        self.begin(b'[')?;
        if self.ends(b']') {
            return Some(());
        }
        loop {
            self.value(depth + 1)?;
            if self.ends(b']') {
                return Some(());
            }
            self.begin(b',')?;
        }
    }

    /// Scans a JSON-RPC id: a string or an integer.
    fn id(&mut self) -> Option<Range<usize>> {
        self.whitespace();
        let start = self.at;
        match *self.bytes.get(start)? {
            b'"' => self.string().map(drop),
            _ => self.number(),
        }?;
        let id = &self.bytes[start..self.at];
        (id[0] == b'"' || !id.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))).then_some(start..self.at)
    }

    /// Scans a string without escape sequences. Returns the position of its content.
    fn plain_string(&mut self) -> Option<Range<usize>> {
        let content = self.string()?;
        (!self.bytes[content.clone()].contains(&b'\\')).then_some(content)
    }

    /// Scans a string. Returns the position of its content.
    fn string(&mut self) -> Option<Range<usize>> {
        self.begin(b'"')?;
        let start = self.at;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(start..self.at - 1);
                }
                b'\\' => self.escape()?,
                byte if byte < b' ' => return None,
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match *self.bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => {
                let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                self.at += 6;
            }
            _ => return None,
        }
        Some(())
    }

    /// Scans a number (RFC 8259 §6).
    fn number(&mut self) -> Option<()> {
        self.take(b"-");
        match *self.bytes.get(self.at)? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return None,
        }
        if self.take(b".") {
            self.digits()?;
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Skips whitespace, and scans exactly `text`.
    fn exact(&mut self, text: &[u8]) -> bool {
        self.whitespace();
        self.literal(text).is_some()
    }

    fn literal(&mut self, text: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(text).then(|| self.at += text.len())
    }

    /// Scans one byte of `bytes`, if there is one.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let is_there = self.bytes.get(self.at).is_some_and(|byte| bytes.contains(byte));
        self.at += usize::from(is_there);
        is_there
    }

    /// Skips whitespace, and scans `byte`.
    fn begin(&mut self, byte: u8) -> Option<()> {
        self.ends(byte).then_some(())
    }

    /// Skips whitespace, and scans `byte` if it is there.
    fn ends(&mut self, byte: u8) -> bool {
        self.whitespace();
        self.take(&[byte])
    }

    fn whitespace(&mut self) {
        while self.take(b" \t\n\r") {}
    }
}

const VERSION: &[u8] = b"io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &[u8] = b"io.modelcontextprotocol/clientCapabilities";

/// Maximum number of objects and arrays around a value. Messages with more get the slow path.
const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString as _};

    use serde_json::{Value, json};

    use super::*;

    fn call() -> Value {
        json!({
            "jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {
                "name": "files__read", "arguments": {"path": "a\"\\\u{e9}", "n": [1, -2.5e3, null, true, {}]},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": "t",
                },
            },
        })
    }

    fn scans(message: &str) -> bool {
        ScannedCall::scan(message.as_bytes()).is_some()
    }

    /// Returns the text of `call` after `change`.
    fn changed(change: impl FnOnce(&mut Value)) -> String {
        let mut call = call();
        change(&mut call);
        call.to_string()
    }

    #[test]
    fn only_the_name_of_the_tool_changes() {
        for message in [call().to_string(), serde_json::to_string_pretty(&call()).unwrap()] {
            let scanned = ScannedCall::scan(message.as_bytes()).unwrap();
            assert_eq!((scanned.id(), scanned.name(), scanned.version()), ("7", "files__read", "2026-07-28"));
            let with_name = scanned.with_name("read").unwrap();
            assert_eq!(String::from_utf8(with_name).unwrap(), message.replace("files__read", "read"));
            assert_eq!(scanned.with_name("re\"ad"), None);
        }
    }

    #[test]
    fn order_of_members_does_not_matter() {
        let message = r#" {"params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{},
            "io.modelcontextprotocol/protocolVersion":"v"},"name":"é"},"method":"tools/call","id":"\u0061","jsonrpc":"2.0"} "#;
        let scanned = ScannedCall::scan(message.as_bytes()).unwrap();
        assert_eq!((scanned.id(), scanned.name(), scanned.version()), (r#""\u0061""#, "é", "v"));
    }

    #[test]
    fn state_of_a_retry_can_be_replaced() {
        let message = changed(|call| {
            call["params"]["requestState"] = json!("sealed");
            call["params"]["inputResponses"] = json!({"name": {"action": "accept", "content": {"n": 1}}});
        });
        let scanned = ScannedCall::scan(message.as_bytes()).unwrap();
        assert_eq!(scanned.request_state(), Some("sealed"));
        let replaced = scanned.with_name_and_state("read", "a\"\\\n\u{e9}").unwrap();
        let replaced: Value = serde_json::from_slice(&replaced).unwrap();
        let mut expected: Value = serde_json::from_str(&message).unwrap();
        expected["params"]["name"] = json!("read");
        expected["params"]["requestState"] = json!("a\"\\\n\u{e9}");
        assert_eq!(replaced, expected);
        assert_eq!(scanned.with_name_and_state("re\"ad", "s"), None);
        let message = call().to_string();
        let without_state = ScannedCall::scan(message.as_bytes()).unwrap();
        assert_eq!(
            (without_state.request_state(), without_state.with_name_and_state("read", "s")),
            (None, None)
        );
    }

    #[test]
    fn support_for_tasks_is_found_in_the_capabilities() {
        let declares_tasks = |capabilities: Value| {
            let message = changed(|call| {
                call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
            });
            ScannedCall::scan(message.as_bytes()).map(|call| call.declares_tasks())
        };
        let tasks = json!({TASKS_EXTENSION: {}});
        for (capabilities, expected) in [
            (json!({}), Some(false)),
            (json!({"elicitation": {"form": {}}, "roots": {}, "sampling": {"tools": {}}}), Some(false)),
            (json!({"elicitation": {}, "extensions": tasks.clone()}), Some(true)),
            (json!({"experimental": {"extensions": tasks}}), Some(false)),
            (json!({"extensions": {"io.modelcontextprotocol/ui": {}}}), Some(false)),
            (json!({"extensions": []}), None),
            (json!([]), None),
        ] {
            assert_eq!(declares_tasks(capabilities.clone()), expected, "{capabilities}");
        }
        let escaped = changed(|call| {
            call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"extensions": {TASKS_EXTENSION: {}}});
        });
        assert!(!scans(&escaped.replace("/tasks", "\\/tasks")));
    }

    #[test]
    fn calls_that_need_the_bridge_are_not_scanned() {
        assert!(scans(&call().to_string()));
        for message in [
            changed(|call| call["method"] = json!("tools/list")),
            changed(|call| call["params"]["requestState"] = json!(1)),
            changed(|call| call["params"]["requestState"] = json!("\u{1}")),
            changed(|call| call["params"]["task"] = json!({})),
            changed(|call| call["params"]["Name"] = json!("other")),
            changed(|call| drop(call["params"].as_object_mut().unwrap().remove("_meta"))),
            changed(|call| drop(call.as_object_mut().unwrap().remove("id"))),
            changed(|call| drop(call.as_object_mut().unwrap().remove("jsonrpc"))),
            changed(|call| call["id"] = json!(1.5)),
            changed(|call| call["id"] = json!(null)),
            changed(|call| call["other"] = json!(1)),
            format!("[{}]", call()),
        ] {
            assert!(!scans(&message), "{message}");
        }
    }

    /// A parser behind the gateway could use the other of two members.
    #[test]
    fn repeated_or_escaped_members_are_not_scanned() {
        let message = call().to_string();
        for (old, new) in [
            ("\"name\":", "\"name\":\"other\",\"name\":"),
            ("\"name\":", "\"n\\u0061me\":\"other\",\"name\":"),
            ("\"name\":", "\"n\\u0061me\":"),
            ("\"files__read\"", "\"files__re\\u0061d\""),
            ("\"params\":", "\"params\":{},\"params\":"),
            ("\"method\":", "\"method\":\"a\",\"method\":"),
            ("\"id\":", "\"id\":8,\"id\":"),
            ("\"arguments\":", "\"arguments\":{},\"arguments\":"),
            ("\"_meta\":", "\"_meta\":{},\"_meta\":"),
        ] {
            let repeated = message.replacen(old, new, 1);
            assert!(repeated != message && !scans(&repeated), "{repeated}");
        }
    }

    #[test]
    fn every_prefix_and_each_wrong_byte_is_handled() {
        let message = call().to_string();
        for end in 0..message.len() {
            assert!(ScannedCall::scan(&message.as_bytes()[..end]).is_none(), "{end}");
        }
        // If the scanner accepts a changed message, other parsers find the same values in it.
        for at in 0..message.len() {
            for byte in *b"{}[]\":,\\0e-.tn a\x00\x80" {
                let mut bytes = message.clone().into_bytes();
                bytes[at] = byte;
                let Some(scanned) = ScannedCall::scan(&bytes) else { continue };
                let parsed: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(parsed["params"]["name"], scanned.name());
                assert_eq!(parsed["id"].to_string(), scanned.id());
            }
        }
    }

    #[test]
    fn invalid_numbers_and_deep_values_are_not_scanned() {
        let message = call().to_string();
        for value in ["01", "1.", ".5", "1e", "+1", "--1", "NaN", "tru", "'a'", "[1,]", "{\"a\"}", "\"\\x\""]
        {
            let invalid = message.replacen("-2500.0", value, 1);
            assert!(invalid != message && !scans(&invalid), "{invalid}");
        }
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(!scans(&message.replacen("-2500.0", &deep, 1)));
    }
}
