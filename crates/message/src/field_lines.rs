//! Flat lists of field lines, in wire order and with the original case of names. A lookup scans the list,
//! so this module builds no map.

use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::ops::Range;

use memchr::memchr;

use crate::field_line::{FieldLine, FieldName, FieldValue, InvalidFieldLine};

/// The position of one field line in the bytes of its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldLineSpan {
    /// Index of the first byte of the name.
    pub name_start: u32,
    /// Index after the last byte of the name.
    pub name_end: u32,
    /// Index of the first byte of the value, without leading whitespace.
    pub value_start: u32,
    /// Index after the last byte of the value, without trailing whitespace.
    pub value_end: u32,
}

impl FieldLineSpan {
    #[inline]
    fn line(self, bytes: &[u8]) -> FieldLine<'_> {
        FieldLine {
            name: FieldName::from_parsed(&bytes[self.name_start as usize..self.name_end as usize]),
            value: FieldValue::from_parsed(&bytes[self.value_start as usize..self.value_end as usize]),
        }
    }

    /// Returns the length of the name in bytes.
    #[inline]
    pub const fn name_length(self) -> usize {
        self.name_end.wrapping_sub(self.name_start) as usize
    }
}

/// The field lines of a parsed message. The list refers to the bytes of the message and to the position
/// of each line.
#[derive(Clone, Copy, Default)]
pub struct FieldLines<'a> {
    bytes: &'a [u8],
    spans: &'a [FieldLineSpan],
}

impl<'a> FieldLines<'a> {
    /// Creates a list from the bytes of a message and the positions of its field lines. Only parsers
    /// should call this function, because each span must mark a valid name and a valid value.
    pub const fn from_parsed(bytes: &'a [u8], spans: &'a [FieldLineSpan]) -> Self {
        Self { bytes, spans }
    }

    /// Returns the number of field lines.
    pub const fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns `true` if there are no field lines.
    pub const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the lines in wire order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = FieldLine<'a>> + DoubleEndedIterator + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| span.line(bytes))
    }

    /// Returns all lines except the lines named `name`, ignoring case. Stores the positions of the
    /// returned lines in `spans`.
    pub fn without<'s>(&self, name: &str, spans: &'s mut Vec<FieldLineSpan>) -> FieldLines<'s>
    where
        'a: 's,
    {
        let left = self.iter().zip(self.spans).filter(|(line, _)| !line.name.is(name));
        *spans = left.map(|(_, span)| *span).collect();
        FieldLines { bytes: self.bytes, spans }
    }

    /// Returns the value of the first line named `name`, ignoring case, or `None` if there is no such
    /// line.
    #[inline]
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.all(name).next()
    }

    /// Returns the values of all lines named `name`, ignoring case, in wire order.
    #[inline]
    pub fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = FieldValue<'a>> + use<'a, 'n> {
        let bytes = self.bytes;
        // Most names have another length. This comparison does not read the bytes of such a line.
        let may_be = self.spans.iter().filter(move |span| span.name_length() == name.len());
        may_be.map(move |span| span.line(bytes)).filter(move |line| line.name.is(name)).map(|line| line.value)
    }

    /// Appends lines to `output` in [wire format](FieldLine::write). Skips each line for which `is_kept`
    /// returns `false`. Copies adjacent lines together.
    #[inline]
    pub fn write_kept(&self, output: &mut Vec<u8>, mut is_kept: impl FnMut(FieldLine<'a>) -> bool) {
        let mut adjacent = 0..0;
        for span in self.spans {
            let line = span.line(self.bytes);
            if !is_kept(line) {
                continue;
            }
            match self.as_sent(span) {
                Some(position) if position.start == adjacent.end => adjacent.end = position.end,
                Some(position) => {
                    output.extend_from_slice(&self.bytes[mem::replace(&mut adjacent, position)]);
                }
                None => {
                    output.extend_from_slice(&self.bytes[mem::take(&mut adjacent)]);
                    line.write(output);
                }
            }
        }
        output.extend_from_slice(&self.bytes[adjacent]);
    }

    /// Returns the position of the line at `span`, including CRLF. The caller can copy these bytes in one
    /// step. Returns `None` if the bytes differ from the output of [`FieldLine::write`].
    #[inline]
    fn as_sent(&self, span: &FieldLineSpan) -> Option<Range<usize>> {
        let (name_end, value_start) = (span.name_end as usize, span.value_start as usize);
        let position = span.name_start as usize..span.value_end as usize + 2;
        let is_as_sent = self.bytes.get(name_end..value_start) == Some(b": ")
            && self.bytes.get(span.value_end as usize..position.end) == Some(b"\r\n");
        is_as_sent.then_some(position)
    }

    /// Returns the bytes that contain the lines.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the positions of the lines in [`bytes`](Self::bytes).
    pub const fn spans(&self) -> &'a [FieldLineSpan] {
        self.spans
    }
}

impl fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|line| (line.name, line.value))).finish()
    }
}

/// A header section that a handler builds, to pass a request on with other headers.
#[derive(Clone, Default, Debug)]
pub struct FieldSection {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

impl FieldSection {
    /// Returns an empty section with memory for lines of `bytes` bytes.
    pub fn with_capacity(bytes: usize, lines: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), spans: Vec::with_capacity(lines) }
    }

    /// Appends a line. The name and the value are valid, because they were checked.
    #[expect(clippy::cast_possible_truncation, reason = "a header section has less than 1 MiB")]
    pub fn append(&mut self, line: FieldLine<'_>) {
        let name_start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(line.name.as_bytes());
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(line.value.as_bytes());
        let value_end = self.bytes.len() as u32;
        self.spans.push(FieldLineSpan { name_start, name_end, value_start: name_end, value_end });
    }

    /// Returns the lines.
    pub fn lines(&self) -> FieldLines<'_> {
        FieldLines::from_parsed(&self.bytes, &self.spans)
    }
}

/// A buffer of valid field lines to send. Each line is in wire format: name, colon, one space, value and
/// CRLF.
///
/// Parsers and the methods of this type check every name and every value. A peer or a handler therefore
/// cannot insert line ends that begin another field line or end the head.
///
/// ```
/// use thruway_message::{FieldLinesBuf, InvalidFieldLine};
///
/// let mut fields = FieldLinesBuf::new();
/// fields.append("ETag", "\"1\"")?;
/// assert_eq!(fields.bytes(), b"ETag: \"1\"\r\n");
/// assert_eq!(fields.append("X", "a\r\nEvil: 1"), Err(InvalidFieldLine::Value));
/// # Ok::<_, InvalidFieldLine>(())
/// ```
#[derive(Clone)]
pub struct FieldLinesBuf(Lines);

#[derive(Clone)]
enum Lines {
    /// Lines known at compile time.
    Static(&'static str),
    /// Lines created at run time.
    Owned(Vec<u8>),
}

impl FieldLinesBuf {
    /// Returns an empty list. Does not allocate.
    pub const fn new() -> Self {
        Self(Lines::Static(""))
    }

    /// Creates a list from the literal `lines`, in which each line ends with CRLF: `"Content-Type:
    /// text/plain\r\n"`. Does not allocate.
    ///
    /// # Panics
    /// Panics if `lines` is not a sequence of valid field lines. In a constant, this panic is a
    /// compile-time error.
    pub const fn from_static(lines: &'static str) -> Self {
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let Some((line, after)) = split_line(rest) else { panic!("a field line must end with CRLF") };
            let Some((name, value)) = split_name(line) else { panic!("a field line must contain a colon") };
            assert!(FieldName::new(name).is_ok(), "a field name must be a token");
            assert!(FieldValue::new(value).is_ok(), "a field value must not contain control characters");
            rest = after;
        }
        Self(Lines::Static(lines))
    }

    /// Returns an empty list that uses the memory of `buffer`, and discards its contents.
    #[inline]
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self(Lines::Owned(buffer))
    }

    /// Returns the memory of the list, or an empty vector if the list owns no memory.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        match self.0 {
            Lines::Static(_) => Vec::new(),
            Lines::Owned(bytes) => bytes,
        }
    }

    /// Reserves capacity for lines of `bytes` bytes in total, with at most one allocation. Appending
    /// these lines then does not allocate.
    pub fn reserve(&mut self, bytes: usize) {
        self.make_owned(bytes).reserve(bytes);
    }

    /// Appends a line with the name `name` and the value `value`.
    ///
    /// # Errors
    /// Returns an error if the name or the value is invalid. After an error, the list is unchanged.
    pub fn append(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidFieldLine> {
        let name = FieldName::new(name.as_bytes())?;
        let value = FieldValue::new(value.as_ref())?;
        self.append_line(FieldLine { name, value });
        Ok(())
    }

    /// Appends `line`, which is valid because its name and its value were checked.
    pub fn append_line(&mut self, line: FieldLine<'_>) {
        line.write(self.make_owned(ROOM_FOR_MORE_LINES));
    }

    /// Appends the lines in `lines` for which `is_kept` returns `true`. Allocates at most once.
    #[inline]
    pub fn append_kept<'a>(&mut self, lines: FieldLines<'a>, is_kept: impl FnMut(FieldLine<'a>) -> bool) {
        let additional = lines.bytes.len();
        let bytes = self.make_owned(additional);
        bytes.reserve(additional);
        lines.write_kept(bytes, is_kept);
    }

    /// Appends all lines of `others`.
    pub fn append_lines(&mut self, others: &Self) {
        if !others.bytes().is_empty() {
            self.make_owned(others.bytes().len() + ROOM_FOR_MORE_LINES).extend_from_slice(others.bytes());
        }
    }

    /// Replaces all lines named `name` by one line.
    ///
    /// # Errors
    /// Returns an error if the name or the value is invalid. After an error, the list is unchanged.
    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidFieldLine> {
        let line =
            FieldLine { name: FieldName::new(name.as_bytes())?, value: FieldValue::new(value.as_ref())? };
        self.remove(name);
        self.append_line(line);
        Ok(())
    }

    /// Removes all lines named `name`, ignoring case.
    pub fn remove(&mut self, name: &str) {
        if self.field(name).is_none() {
            return;
        }
        let mut kept = Self(Lines::Owned(Vec::with_capacity(self.bytes().len())));
        for line in self.iter().filter(|line| !line.name.is(name)) {
            kept.append_line(line);
        }
        *self = kept;
    }

    /// Returns the lines in wire order.
    pub fn iter(&self) -> FieldLinesIter<'_> {
        FieldLinesIter { rest: self.bytes() }
    }

    /// Returns `true` if any line has one of `names`, ignoring case.
    pub fn has_any(&self, names: &[&str]) -> bool {
        let mut lines = self.iter();
        while !names.iter().any(|name| lines.is_at(name)) {
            if lines.skip_line().is_none() {
                return false;
            }
        }
        true
    }

    /// Returns the value of the first line named `name`, ignoring case, or `None` if there is no such
    /// line.
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        let mut lines = self.iter();
        while !lines.is_at(name) {
            lines.skip_line()?;
        }
        lines.next().map(|line| line.value)
    }

    /// Returns all lines in wire format. Each line ends with CRLF.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Lines::Static(lines) => lines.as_bytes(),
            Lines::Owned(bytes) => bytes,
        }
    }

    /// Returns the constant that was passed to [`from_static`](Self::from_static), if the list has not
    /// changed since. Returns `None` for all other lists. A caller can cache one result for each constant.
    pub const fn as_static(&self) -> Option<&'static str> {
        match &self.0 {
            Lines::Static(lines) => Some(lines),
            Lines::Owned(_) => None,
        }
    }

    #[inline]
    fn make_owned(&mut self, additional: usize) -> &mut Vec<u8> {
        if let Lines::Static(lines) = self.0 {
            let mut bytes = Vec::with_capacity(lines.len() + additional);
            bytes.extend_from_slice(lines.as_bytes());
            self.0 = Lines::Owned(bytes);
        }
        match &mut self.0 {
            Lines::Owned(bytes) => bytes,
            Lines::Static(_) => unreachable!("made owned above"),
        }
    }
}

impl Default for FieldLinesBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FieldLinesBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|line| (line.name, line.value))).finish()
    }
}

impl<'a> IntoIterator for &'a FieldLinesBuf {
    type Item = FieldLine<'a>;
    type IntoIter = FieldLinesIter<'a>;

    fn into_iter(self) -> FieldLinesIter<'a> {
        self.iter()
    }
}

/// The lines of a [`FieldLinesBuf`].
#[derive(Clone)]
pub struct FieldLinesIter<'a> {
    rest: &'a [u8],
}

impl FieldLinesIter<'_> {
    /// Returns `true` if the next line has the name `name`.
    fn is_at(&self, name: &str) -> bool {
        match self.rest.get(..=name.len()) {
            Some([start @ .., b':']) => start.eq_ignore_ascii_case(name.as_bytes()),
            _ => false,
        }
    }

    fn skip_line(&mut self) -> Option<()> {
        self.rest = &self.rest[memchr(b'\n', self.rest)? + 1..];
        Some(())
    }
}

impl<'a> Iterator for FieldLinesIter<'a> {
    type Item = FieldLine<'a>;

    fn next(&mut self) -> Option<FieldLine<'a>> {
        let (line, rest) = self.rest.split_at_checked(memchr(b'\r', self.rest)?)?;
        let (name, value) = line.split_at_checked(memchr(b':', line)?)?;
        let value = value.strip_prefix(b": ").unwrap_or(&value[1..]);
        self.rest = rest.get(2..)?;
        Some(FieldLine { name: FieldName::from_parsed(name), value: FieldValue::from_parsed(value) })
    }
}

/// Splits `bytes` at the first CRLF. Values contain no CR, so the first CRLF ends the line. Unlike
/// `memchr`, this function can run at compile time.
const fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut i = 0;
    while i + 1 < bytes.len() {
        if bytes[i] == b'\r' && bytes[i + 1] == b'\n' {
            let (line, rest) = bytes.split_at(i);
            return Some((line, rest.split_at(2).1));
        }
        i += 1;
    }
    None
}

/// Splits `line` into name and value at the first colon. Drops one space directly after the colon.
const fn split_name(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut i = 0;
    while i < line.len() {
        if line[i] == b':' {
            let (name, rest) = line.split_at(i);
            return match rest {
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some((name, value)),
                _ => None,
            };
        }
        i += 1;
    }
    None
}

/// Extra capacity in bytes. The list reserves this capacity when the first line is added at run time, because
/// more lines usually follow.
const ROOM_FOR_MORE_LINES: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn parsed_lines_are_written_in_canonical_form() {
        // The end of the last line is not part of the bytes.
        let bytes = b"A: 1\r\nB:2\r\nC:\t3\r\nD: 4 \r\nE: \r\nF: 6";
        let mut at = 0;
        let spans: Vec<_> = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                let value = line[2..].trim_ascii();
                let start = value.as_ptr().addr() - bytes.as_ptr().addr();
                let span = FieldLineSpan {
                    name_start: at,
                    name_end: at + 1,
                    value_start: u32::try_from(start).unwrap(),
                    value_end: u32::try_from(start + value.len()).unwrap(),
                };
                at += u32::try_from(line.len()).unwrap();
                span
            })
            .collect();
        let lines = FieldLines::from_parsed(bytes, &spans);
        let mut sent = Vec::new();
        lines.write_kept(&mut sent, |_| true);
        assert_eq!(sent, b"A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: \r\nF: 6\r\n");
        let mut kept = FieldLinesBuf::from_static("X: 0\r\n");
        kept.append_kept(lines, |line| line.name.is("b") || line.value == "6");
        assert_eq!(kept.bytes(), b"X: 0\r\nB: 2\r\nF: 6\r\n");
    }

    #[test]
    fn lines_can_be_excluded_by_name() {
        let bytes = b"A:1B:2a:3";
        let span = |start: u32| FieldLineSpan {
            name_start: start,
            name_end: start + 1,
            value_start: start + 2,
            value_end: start + 3,
        };
        let spans = [span(0), span(3), span(6)];
        let lines = FieldLines::from_parsed(bytes, &spans);
        let mut left = Vec::new();
        assert_eq!(lines.without("a", &mut left).iter().map(|line| line.value).collect::<Vec<_>>(), ["2"]);
        assert!(lines.without("C", &mut left).iter().eq(lines.iter()));
    }

    #[test]
    fn lines_keep_their_order_and_case() {
        let mut lines = FieldLinesBuf::from_static("Content-Type: text/plain\r\n");
        lines.append("X-B", "2").unwrap();
        lines.append("x-a", "").unwrap();
        assert_eq!(lines.bytes(), b"Content-Type: text/plain\r\nX-B: 2\r\nx-a: \r\n");
        assert_eq!(lines.field("content-TYPE").unwrap(), "text/plain");
        assert_eq!(lines.field("X-A").unwrap(), "");
        let mut both = FieldLinesBuf::from_static("C: 3\r\n");
        both.append_lines(&lines);
        assert_eq!(both.bytes(), [b"C: 3\r\n", lines.bytes()].concat());
        assert!(lines.has_any(&["none", "X-A"]) && !lines.has_any(&["none", "X-", "text/plain"]));
        assert_eq!(lines.iter().count(), 3);
    }

    #[test]
    fn list_uses_and_returns_the_memory_of_a_buffer() {
        let buffer = Vec::from(*b"earlier contents");
        let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
        let mut lines = FieldLinesBuf::with_buffer(buffer);
        assert!(lines.bytes().is_empty());
        lines.append("A", "1").unwrap();
        assert_eq!(lines.bytes(), b"A: 1\r\n");
        let buffer = lines.into_buffer();
        assert_eq!((buffer.as_ptr(), buffer.capacity()), (address, capacity));
        assert_eq!(FieldLinesBuf::from_static("A: 1\r\n").into_buffer().capacity(), 0);
    }

    #[test]
    fn set_replaces_all_lines_of_that_name() {
        let mut lines = FieldLinesBuf::from_static("A: 1\r\nB: 2\r\na: 3\r\n");
        lines.set("A", "4").unwrap();
        assert_eq!(lines.bytes(), b"B: 2\r\nA: 4\r\n");
        lines.remove("b");
        lines.remove("none");
        assert_eq!(lines.bytes(), b"A: 4\r\n");
    }

    #[test]
    fn invalid_names_and_values_are_rejected() {
        let mut lines = FieldLinesBuf::new();
        assert_eq!(lines.append("A", "x\r\nEvil: 1"), Err(InvalidFieldLine::Value));
        assert_eq!(lines.append("A b", "x"), Err(InvalidFieldLine::Name));
        assert_eq!(lines.set("", "x"), Err(InvalidFieldLine::Name));
        assert_eq!(lines.append("A", "\0"), Err(InvalidFieldLine::Value));
        assert!(lines.bytes().is_empty());
    }

    #[test]
    #[should_panic = "must end with CRLF"]
    fn static_line_without_crlf_panics() {
        let _ = FieldLinesBuf::from_static("A: 1\r\nB: 2");
    }

    #[test]
    #[should_panic = "control characters"]
    fn invalid_static_value_panics() {
        let _ = FieldLinesBuf::from_static("A: 1\n2\r\n");
    }

    #[test]
    #[should_panic = "token"]
    fn invalid_static_name_panics() {
        let _ = FieldLinesBuf::from_static("A b: 1\r\n");
    }

    #[test]
    fn lookup_of_borrowed_lines_ignores_case() {
        let bytes = b"Host: a\r\nhost:b\r\n";
        let spans = [
            FieldLineSpan { name_start: 0, name_end: 4, value_start: 6, value_end: 7 },
            FieldLineSpan { name_start: 9, name_end: 13, value_start: 14, value_end: 15 },
        ];
        let lines = FieldLines::from_parsed(bytes, &spans);
        assert_eq!(lines.field("HOST").unwrap(), "a");
        assert_eq!(lines.all("host").count(), 2);
        assert_eq!(lines.iter().nth(1).unwrap().value.to_string(), "b");
    }
}
