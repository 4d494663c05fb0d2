//! Reads the cases of the corpus and the results of `llhttp`. A case consists of two fenced blocks in a
//! Markdown file: the input (`http`), and the expected `log` of `llhttp`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context as _, Result, ensure};
use regex::{Captures, Regex};
use serde::Deserialize;
use walkdir::WalkDir;

/// A fragment that many cases have in the request target, although they do not test fragments. Our parser
/// rejects fragments, so the comparison removes this fragment.
pub(super) const FRAGMENT: &str = "#hey";

/// One input, and the log of `llhttp` for this input.
pub(super) struct Case {
    /// File and headings, with a number if several cases have the same headings.
    pub(super) name: String,
    pub(super) meta: Meta,
    pub(super) bytes: Vec<u8>,
    log: String,
}

/// The metadata in the comment before the input.
#[derive(Default, Deserialize)]
pub(super) struct Meta {
    /// `request` or `response`, with a suffix for special modes of the parser.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// `true` if the parser must expect no body.
    #[serde(rename = "skipBody", default)]
    pub(super) skips_body: bool,
}

/// A line of a log.
pub(super) struct Entry<'c> {
    /// The name of the event, or of the part of the input that the parser reports.
    pub(super) name: &'c str,
    pub(super) at: usize,
    /// The bytes of the part. Events without a part have no bytes.
    pub(super) bytes: &'c [u8],
}

/// The messages that a parser read, and its error, if any.
#[derive(Default)]
pub(super) struct ParseResult {
    pub(super) messages: Vec<Message>,
    /// The error text of the parser.
    pub(super) rejection: Option<String>,
}

/// A message with a complete head.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The parts of the start line.
    pub(super) start_line: [String; 3],
    pub(super) fields: Vec<(String, String)>,
    pub(super) content: Vec<u8>,
    pub(super) trailers: Vec<(String, String)>,
    pub(super) is_complete: bool,
}

impl ParseResult {
    pub(super) fn complete(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| message.is_complete)
    }
}

impl fmt::Display for ParseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in &self.messages {
            write!(f, "{} {:?}", message.start_line.join(" "), message.fields)?;
            write!(f, " \"{}\" {:?}", message.content.escape_ascii(), message.trailers)?;
            f.write_str(if message.is_complete { "; " } else { " …; " })?;
        }
        match &self.rejection {
            Some(rejection) => write!(f, "rejected: {rejection}"),
            None => f.write_str("accepted"),
        }
    }
}

/// Returns all cases in `directory`, a checkout of `llhttp`.
pub(super) fn cases(directory: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for side in ["request", "response"] {
        for file in WalkDir::new(directory.join("test").join(side)).min_depth(1).sort_by_file_name() {
            let path = file.context("DIR must be a checkout of nodejs/llhttp")?.into_path();
            let file = path.file_stem().unwrap_or_default().to_string_lossy();
            let found = cases_of(&format!("{side}/{file}"), &std::fs::read_to_string(&path)?);
            cases.extend(found.with_context(|| path.display().to_string())?);
        }
    }
    Ok(cases)
}

/// Matches a heading, metadata, an input or a log.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    let heading = r"^#(?<level>#+) *(?<heading>.+)$";
    let block = r"^```(?<kind>http|log)\n(?<block>(?s:.*?))^```$";
    Regex::new(&format!("(?m){heading}|<!-- meta=(?<meta>.*?)-->|{block}")).expect("the pattern is valid")
});

fn cases_of(file: &str, text: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut counts = BTreeMap::<_, usize>::new();
    let mut headings: Vec<&str> = Vec::new();
    let (mut meta, mut input) = (None, None);
    for part in PART.captures_iter(text) {
        let get = |name| part.name(name).map(|found| found.as_str());
        if let (Some(level), Some(heading)) = (get("level"), get("heading")) {
            headings.truncate(level.len() - 1);
            headings.push(heading);
        } else if let Some(json) = get("meta") {
            meta = Some(serde_json::from_str(json)?);
        } else if let (Some("http"), Some(block)) = (get("kind"), get("block")) {
            input = Some(bytes(block)?);
        } else if let Some(log) = get("block") {
            let mut name = format!("{file}: {}", headings.join(" / "));
            let meta = meta.take().with_context(|| format!("a log without metadata in `{name}`"))?;
            let bytes = input.take().with_context(|| format!("a log without input in `{name}`"))?;
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                name = format!("{name} ({count})");
            }
            cases.push(Case { name, meta, bytes, log: log.to_owned() });
        }
    }
    Ok(cases)
}

/// Returns the bytes of a block: decodes escapes, and ends each line except the last one with CRLF.
fn bytes(block: &str) -> Result<Vec<u8>> {
    static ESCAPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|[rntf])").expect("the pattern is valid"));
    ensure!(!block.contains("${"), "the block contains JavaScript code");
    let text = block.strip_suffix('\n').unwrap_or(block).replace("\\\n", "").replace('\n', "\r\n");
    let character = |found: &Captures<'_>| {
        let (digits, radix) = match &found[1] {
            "t" => ("9", 16),
            "n" => ("a", 16),
            "f" => ("c", 16),
            "r" => ("d", 16),
            code => code.strip_prefix('x').map_or((code, 8), |digits| (digits, 16)),
        };
        let character = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
    };
    Ok(ESCAPE.replace_all(&text, character).into_owned().into_bytes())
}

impl Case {
    /// Returns the lines of the log.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'_>>> {
        static LINE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"^off=(\d+|NULL) (?:len=(?<length>\d+) span\[(?<span>\w+)\].*|(?<event>.*))$")
                .expect("the pattern is valid")
        });
        let entry = |line| {
            let found = LINE.captures(line)?;
            let at = found[1].parse().unwrap_or_default();
            let length: usize = found.name("length").map_or(Ok(0), |length| length.as_str().parse()).ok()?;
            let name = found.name("span").or(found.name("event"))?.as_str();
            Some(Entry { name, at, bytes: self.bytes.get(at..at + length)? })
        };
        self.log.lines().map(|line| entry(line).with_context(|| format!("in the log: `{line}`"))).collect()
    }

    /// Returns the result of `llhttp`.
    pub(super) fn parse_result(&self) -> Result<ParseResult> {
        let mut state = State::default();
        for entry in self.entries()? {
            state.add_entry(&entry);
        }
        Ok(state.parse_result)
    }
}

#[derive(Default)]
struct State {
    parse_result: ParseResult,
    /// The head or trailer section that is not complete yet.
    pending: Message,
    is_in_name: bool,
}

impl State {
    /// Processes a line of the log. One line of a message can have several spans.
    fn add_entry(&mut self, entry: &Entry<'_>) {
        let text = String::from_utf8_lossy(entry.bytes);
        match entry.name {
            "message begin" => self.pending = Message::default(),
            "method" => self.pending.start_line[0].push_str(&text),
            "url" | "status" => self.pending.start_line[1].push_str(&text),
            "protocol" | "version" => self.pending.start_line[2].push_str(&text),
            "protocol complete" => self.pending.start_line[2].push('/'),
            "header_field" => {
                if !std::mem::replace(&mut self.is_in_name, true) {
                    self.pending.fields.push(Default::default());
                }
                self.pending.fields.last_mut().expect("pushed above").0.push_str(&text);
            }
            "header_field complete" => self.is_in_name = false,
            "header_value" => {
                if let Some((_, value)) = self.pending.fields.last_mut() {
                    value.push_str(&text);
                }
            }
            "body" => {
                if let Some(message) = self.parse_result.messages.last_mut() {
                    message.content.extend_from_slice(entry.bytes);
                }
            }
            "message complete" => {
                let trailers = self.take_pending().fields;
                if let Some(message) = self.parse_result.messages.last_mut() {
                    (message.is_complete, message.trailers) = (true, trailers);
                }
            }
            "finish=2" => self.parse_result.rejection = Some("unexpected end of input".to_owned()),
            event => self.add_event(event),
        }
    }

    /// Processes an event with details.
    fn add_event(&mut self, event: &str) {
        if let Some(details) = event.strip_prefix("headers complete ") {
            let mut message = self.take_pending();
            if let Some((status, _)) = details.strip_prefix("status=").and_then(|rest| rest.split_once(' ')) {
                status.clone_into(&mut message.start_line[0]);
            }
            self.parse_result.messages.push(message);
        } else if let Some((code, reason)) =
            event.strip_prefix("error code=").and_then(|error| error.split_once(" reason="))
        {
            // Code 21 is a pause, and code 22 is the start of a tunnel.
            self.parse_result.rejection = (!["21", "22"].contains(&code)).then(|| reason.to_owned());
        }
    }

    fn take_pending(&mut self) -> Message {
        let mut message = std::mem::take(&mut self.pending);
        message.start_line[1] = message.start_line[1].replace(FRAGMENT, "");
        for (_, value) in &mut message.fields {
            *value = value.trim_matches([' ', '\t']).to_owned();
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_decoded_into_bytes() {
        assert_eq!(bytes("GET /\nA: b\n\n\n").unwrap(), b"GET /\r\nA: b\r\n\r\n");
        assert_eq!(bytes("a\\\nb\n").unwrap(), b"ab");
        assert_eq!(bytes(r"\r\n\t\f\x41\x0c\101\0\q").unwrap(), b"\r\n\t\x0cA\x0cA\0\\q");
        assert!(bytes("${1}").is_err());
    }

    #[test]
    fn cases_are_named_after_their_headings() {
        let case = "<!-- meta={\"type\": \"request\"} -->\n```http\na\n```\n\n```log\noff=0 b\n```\n";
        let text = format!("Title\n=====\n\n## A\n{case}\n### B\n{case}\n## C\n{case}{case}");
        let cases = cases_of("file", &text).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["file: A", "file: A / B", "file: C", "file: C (2)"]);
        assert!(cases.iter().all(|case| case.bytes == b"a" && case.log == "off=0 b\n"));
    }
}
