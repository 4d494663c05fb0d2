//! Splits a byte stream into lines. The bytes may arrive in pieces of any size.

use alloc::vec::Vec;

use super::skipped::{SkipParser, SkippedMessage};

/// A buffer that collects bytes until a line is complete.
///
/// ```
/// use thruway_mcp::stdio::{Line, Lines};
///
/// let mut lines = Lines::with_bytes_max(1024);
/// lines.input_buffer().extend_from_slice(b"one\ntw");
/// assert_eq!(lines.next_line(), Some(Line::Whole(b"one")));
/// assert_eq!(lines.next_line(), None);
/// lines.input_buffer().extend_from_slice(b"o\n");
/// assert_eq!(lines.next_line(), Some(Line::Whole(b"two")));
/// ```
#[derive(Debug)]
pub struct Lines {
    /// Maximum length of a line, in bytes.
    bytes_max: usize,
    bytes: Vec<u8>,
    /// Number of bytes at the start of the buffer that belong to lines that were already returned.
    taken: usize,
    /// Number of bytes after `taken` that were already searched for a line end and contain none.
    searched: usize,
    /// The parser of the current line if that line is too long. The buffer discards the line itself.
    skipped: Option<SkipParser>,
}

/// The next item of the input.
#[derive(PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// A complete line without its line end.
    Whole(&'a [u8]),
    /// The beginning of a line that is too long. The buffer discards the whole line.
    TooLong,
    /// The end of a line that was too long, with the information that the parser extracted from the line.
    SkippedMessage(SkippedMessage),
}

impl Lines {
    /// Returns an empty buffer for lines of at most `bytes_max` bytes.
    pub const fn with_bytes_max(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: Vec::new(), taken: 0, searched: 0, skipped: None }
    }

    /// Returns the input buffer. The caller must append the received bytes to this buffer.
    pub fn input_buffer(&mut self) -> &mut Vec<u8> {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_BYTES_MAX {
            self.bytes = Vec::new();
        }
        &mut self.bytes
    }

    /// Returns the next complete item. Returns `None` if the buffer needs more bytes.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let rest = &self.bytes[self.taken..];
        let end = rest[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = rest.len();
            return self.give_up_if_too_long();
        };
        if end > self.bytes_max && self.skipped.is_none() {
            // The buffer already contains the whole line. The next call finds the line end again and
            // skips the line.
            self.searched = end;
            self.skipped = Some(SkipParser::default());
            return Some(Line::TooLong);
        }
        let start = self.taken;
        self.taken += end + 1;
        self.searched = 0;
        let line = &self.bytes[start..start + end];
        if let Some(mut skipped) = self.skipped.take() {
            skipped.see(line);
            return Some(Line::SkippedMessage(skipped.end()));
        }
        Some(Line::Whole(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn give_up_if_too_long(&mut self) -> Option<Line<'_>> {
        let is_new = self.skipped.is_none();
        if is_new && self.searched <= self.bytes_max {
            return None;
        }
        let rest = &self.bytes[self.taken..];
        self.skipped.get_or_insert_default().see(rest);
        self.taken = self.bytes.len();
        self.searched = 0;
        is_new.then_some(Line::TooLong)
    }

    /// Returns the last line after the end of the input, if that line has no line end.
    pub fn rest(&mut self) -> Option<Line<'_>> {
        let start = core::mem::replace(&mut self.taken, self.bytes.len());
        if let Some(skipped) = self.skipped.take() {
            return Some(Line::SkippedMessage(skipped.end()));
        }
        let rest = &self.bytes[start..];
        (!rest.is_empty()).then_some(Line::Whole(rest))
    }
}

/// Maximum capacity of an empty buffer, in bytes. An empty buffer with more capacity is freed.
const IDLE_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const LINE_BYTES_MAX: usize = 1 << 20;

    /// Returns the lines of `input`, which arrives in pieces of `piece` bytes.
    fn lines(input: &[u8], piece: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::with_bytes_max(LINE_BYTES_MAX);
        let mut found = Vec::new();
        for piece in input.chunks(piece) {
            lines.input_buffer().extend_from_slice(piece);
            while let Some(line) = lines.next_line() {
                found.extend(match line {
                    Line::Whole(line) => Some(Some(line.to_vec())),
                    Line::TooLong => Some(None),
                    Line::SkippedMessage(_) => None,
                });
            }
        }
        if let Some(Line::Whole(rest)) = lines.rest() {
            found.push(Some(rest.to_vec()));
        }
        found
    }

    #[test]
    fn lines_do_not_depend_on_read_boundaries() {
        let input = b"{}\n\r\nabc\r\n\nlast";
        let expected: Vec<_> = [&b"{}"[..], b"", b"abc", b"", b"last"].map(|line| Some(line.to_vec())).into();
        for piece in 1..=input.len() {
            assert_eq!(lines(input, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn overlong_line_is_skipped_and_next_line_is_read() {
        let mut input = vec![b'x'; 3 * LINE_BYTES_MAX];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(lines(&input, 64 << 10), [None, Some(b"next".to_vec())]);
        assert_eq!(lines(&vec![b'x'; 2 * LINE_BYTES_MAX], 64 << 10), [None]);
        // Regression test: a line that arrived in one read was accepted at any length.
        for piece in [1 << 10, input.len()] {
            assert_eq!(lines(&input, piece), [None, Some(b"next".to_vec())]);
        }
        let longest = [vec![b'x'; LINE_BYTES_MAX], b"\n".to_vec()].concat();
        assert_eq!(lines(&longest, longest.len())[0].as_ref().map(Vec::len), Some(LINE_BYTES_MAX));
    }
}
