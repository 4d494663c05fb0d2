//! Changes to one entry of a JSON file. All other bytes of the file stay the same, so comments, order and
//! indentation survive.

use std::fmt::{self, Write as _};

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The reason why a file cannot be changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EditError {
    /// The text is not JSON, even without its comments and trailing commas.
    NotJson(String),
    /// The value at the top, or the value of the section, is not an object.
    NotAnObject(String),
    /// An object has this name more than once, so programs may disagree about its value.
    RepeatedName(String),
    /// A comment is in the text that the change would remove.
    CommentInTheWay,
}

/// A JSON text with comments, and the same text without them.
struct Document<'t> {
    original: &'t str,
    /// The text with spaces in place of comments and trailing commas. All positions are the same.
    plain: String,
}

/// The members of an object: each name, with the text of its value.
struct Members<'t>(Vec<(String, &'t RawValue)>);

/// The position of a value in the text.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

/// Adds the entry `name` to the object `section`, or replaces it. Creates the section if necessary. Returns
/// `None` if the file already contains this entry.
pub(super) fn set(text: &str, section: &str, name: &str, entry: &Value) -> Result<Option<String>, EditError> {
    if text.trim_matches(is_blank).is_empty() {
        return Ok(Some(format!("{{\n{}\n}}\n", member(section, &object_with(name, entry), "  ", "  "))));
    }
    let document = Document::parse(text)?;
    let unit = indentation_unit(text);
    let Some((top, members)) = document.top()? else { return Err(EditError::NotAnObject(String::new())) };
    let Some(section_span) = members.find(&document, section)? else {
        let value = object_with(name, entry);
        return Ok(Some(document.insert(top, &members, &member(section, &value, unit, unit), "")));
    };
    let Some(entries) = document.members(section_span)? else {
        return Err(EditError::NotAnObject(section.to_owned()));
    };
    let Some(old) = entries.find(&document, name)? else {
        let line = member(name, entry, &unit.repeat(2), unit);
        return Ok(Some(document.insert(section_span, &entries, &line, unit)));
    };
    let current: Value = serde_json::from_str(&document.plain[old.start..old.end])
        .map_err(|error| EditError::not_json(&error))?;
    if current == *entry {
        return Ok(None);
    }
    document.check_comments(old)?;
    let value = pretty(entry, &unit.repeat(2), unit);
    Ok(Some(document.replace(old, &value)))
}

/// Removes the entry `name` of the object `section`. Returns `None` if the file has no such entry.
pub(super) fn remove(text: &str, section: &str, name: &str) -> Result<Option<String>, EditError> {
    if text.trim_matches(is_blank).is_empty() {
        return Ok(None);
    }
    let document = Document::parse(text)?;
    let Some((_, members)) = document.top()? else { return Err(EditError::NotAnObject(String::new())) };
    let Some(section_span) = members.find(&document, section)? else { return Ok(None) };
    let Some(entries) = document.members(section_span)? else {
        return Err(EditError::NotAnObject(section.to_owned()));
    };
    let spans: Vec<_> = entries.0.iter().map(|(_, value)| document.span_of(value)).collect();
    if entries.find(&document, name)?.is_none() {
        return Ok(None);
    }
    let index = entries.0.iter().position(|(one, _)| one == name).unwrap_or_default();
    let bytes = document.plain.as_bytes();
    let is_skipped = |at: usize| bytes[at].is_ascii_whitespace() || bytes[at] == b',';
    let cut = match (index.checked_sub(1), spans.get(index + 1)) {
        (Some(before), next) => document.behind(spans[before], spans[index], next.is_some())?,
        // The first entry and the separators behind it.
        (None, Some(_)) => {
            let name_from = |from: usize| (from..bytes.len()).find(|at| !is_skipped(*at)).unwrap_or(from);
            let (start, end) = (name_from(section_span.start + 1), name_from(spans[index].end));
            Span { start, end }
        }
        (None, None) => Span { start: section_span.start + 1, end: section_span.end - 1 },
    };
    document.check_comments(cut)?;
    Ok(Some(document.replace(cut, "")))
}

impl<'t> Document<'t> {
    fn parse(original: &'t str) -> Result<Self, EditError> {
        let plain = without_comments(original);
        serde_json::from_str::<IgnoredAny>(plain.trim_matches(is_blank))
            .map_err(|error| EditError::not_json(&error))?;
        Ok(Self { original, plain })
    }

    /// Returns the position and the members of the value at the top. `None` if it is not an object.
    fn top(&self) -> Result<Option<(Span, Members<'_>)>, EditError> {
        let start = self.plain.len() - self.plain.trim_start_matches(is_blank).len();
        let span = Span { start, end: self.plain.trim_end_matches(is_blank).len() };
        Ok(self.members(span)?.map(|members| (span, members)))
    }

    /// Returns the members of an object. `None` if the value is not an object.
    fn members(&self, span: Span) -> Result<Option<Members<'_>>, EditError> {
        let text = &self.plain[span.start..span.end];
        if !text.starts_with('{') {
            return Ok(None);
        }
        serde_json::from_str(text).map(Some).map_err(|error| EditError::not_json(&error))
    }

    /// Returns the position of a value. `value` must borrow from the text of this document.
    fn span_of(&self, value: &RawValue) -> Span {
        let start = value.get().as_ptr().addr() - self.plain.as_ptr().addr();
        Span { start, end: start + value.get().len() }
    }

    fn replace(&self, span: Span, text: &str) -> String {
        format!("{}{text}{}", &self.original[..span.start], &self.original[span.end..])
    }

    /// Inserts `line` behind the last member of an object. `outer` is the indentation of its closing brace.
    fn insert(&self, object: Span, members: &Members<'_>, line: &str, outer: &str) -> String {
        let Some((_, last)) = members.0.last() else {
            // Keeps comments in an empty object.
            let at = object.start + 1;
            let is_on_one_line = !self.original[at..object.end - 1].contains('\n');
            let close = if is_on_one_line { format!("\n{outer}") } else { String::new() };
            return self.replace(Span { start: at, end: at }, &format!("\n{line}{close}"));
        };
        let at = self.span_of(last).end;
        let line_end = self.original[at..].find('\n').map_or(self.original.len(), |length| at + length);
        let tail = &self.original[at..line_end];
        let behind_comma = tail.trim_start().strip_prefix(',');
        // A comment at the end of the line belongs to the last member, so it stays on this line.
        if line_end < object.end && behind_comma.unwrap_or(tail).trim_start().starts_with("//") {
            let comma = if behind_comma.is_some() { "" } else { "," };
            return self.replace(Span { start: at, end: line_end }, &format!("{comma}{tail}\n{line}"));
        }
        self.replace(Span { start: at, end: at }, &format!(",\n{line}"))
    }

    /// Returns the text of the member `own` with the comma before it. `before` is the member before. Leaves a
    /// comment behind the comma, if it is on the line of `before`.
    fn behind(&self, before: Span, own: Span, has_next: bool) -> Result<Span, EditError> {
        let Some(length) = self.original[before.end..].find('\n') else {
            return Ok(Span { start: before.end, end: own.end });
        };
        let line_end = before.end + length;
        let behind_comma = self.original[before.end..line_end].trim_start().strip_prefix(',');
        if !behind_comma.is_some_and(|rest| rest.trim_start().starts_with("//")) {
            return Ok(Span { start: before.end, end: own.end });
        }
        // The comma before the comment stays, so the comma behind this member must go.
        let rest = self.original[own.end..].trim_start();
        let end = match rest.strip_prefix(',') {
            Some(rest) => self.original.len() - rest.len(),
            None if has_next => return Err(EditError::CommentInTheWay),
            None => own.end,
        };
        // The rest of the text must not become a part of the comment.
        let is_at_line_end = self.original[end..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        Ok(Span { start: if is_at_line_end { line_end } else { line_end + 1 }, end })
    }

    /// Fails if the text in `span` contains a comment.
    fn check_comments(&self, span: Span) -> Result<(), EditError> {
        let (with, without) = (&self.original[span.start..span.end], &self.plain[span.start..span.end]);
        let is_comment = |(with, without): (u8, u8)| with != without && with != b',';
        if with.bytes().zip(without.bytes()).any(is_comment) {
            return Err(EditError::CommentInTheWay);
        }
        Ok(())
    }
}

impl Members<'_> {
    /// Returns the position of the value of `name`.
    fn find(&self, document: &Document<'_>, name: &str) -> Result<Option<Span>, EditError> {
        let mut found = self.0.iter().filter(|(one, _)| one == name);
        let first = found.next().map(|(_, value)| document.span_of(value));
        if found.next().is_some() {
            return Err(EditError::RepeatedName(name.to_owned()));
        }
        Ok(first)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    members.push((name, map.next_value::<&'de RawValue>()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl EditError {
    fn not_json(error: &serde_json::Error) -> Self {
        Self::NotJson(error.to_string())
    }
}

/// Replaces comments and trailing commas by spaces (JSON with comments, the format of VS Code).
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let length = match rest {
            [b'"', ..] => string_length(rest),
            [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => {
                rest[2..].windows(2).position(|end| end == b"*/").map_or(rest.len(), |n| n + 4)
            }
            _ => 1,
        };
        match rest[0] {
            b'/' if length > 1 => {
                let comment = bytes[at..at + length].iter_mut();
                comment.filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            byte if !byte.is_ascii_whitespace() => comma = None,
            _ => {}
        }
        at += length;
    }
    // Each comment is replaced as a whole, so the text stays UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns the length of the JSON string at the start of `bytes`, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the indentation of the first indented line. Default: two spaces.
fn indentation_unit(text: &str) -> &str {
    let indents = text.lines().map(|line| &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]);
    indents.filter(|indent| !indent.is_empty()).find(|indent| indent.len() <= 8).unwrap_or("  ")
}

/// Returns `"name": value` on one or several lines, with this indentation.
fn member(name: &str, value: &Value, indent: &str, unit: &str) -> String {
    format!("{indent}{}: {}", Value::from(name), pretty(value, indent, unit))
}

/// Returns a value on several lines. `indent` applies to all lines but the first.
pub(super) fn pretty(value: &Value, indent: &str, unit: &str) -> String {
    let text = format!("{value:#}");
    let mut lines = text.lines();
    let mut output = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let inner = line.trim_start_matches(' ');
        let depth = (line.len() - inner.len()) / 2;
        // Writing to a string cannot fail.
        let _ = write!(output, "\n{indent}{}{inner}", unit.repeat(depth));
    }
    output
}

fn object_with(name: &str, entry: &Value) -> Value {
    Value::Object([(name.to_owned(), entry.clone())].into_iter().collect())
}

/// Returns `true` for white space, and for the byte order mark that some editors write.
fn is_blank(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\u{feff}'
}

#[cfg(test)]
mod tests;
