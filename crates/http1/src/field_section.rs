//! Parses header and trailer sections. A section consists of field lines and a final empty line (RFC 9112
//! §5).

use alloc::vec::Vec;

use thruway_message::FieldLineSpan;
use thruway_message::token::is_whitespace;

use crate::error::Error;
use crate::limits::Limits;
use crate::scan;
use crate::scan::parse_line_end;

/// The limits of a section, and the error for a section that is too large.
#[derive(Clone, Copy)]
pub(crate) struct SectionLimit {
    pub(crate) bytes: u32,
    pub(crate) field_lines: u32,
    pub(crate) too_large: Error,
}

/// Parses the section at `start`, including its final empty line. Adds the position of each line to the
/// empty list `spans`, and passes the name and value of each line to `observe`. Returns the end of the section, or
/// `None` if the section is incomplete.
#[inline]
pub(crate) fn parse<'i>(
    input: &'i [u8],
    start: usize,
    limit: SectionLimit,
    spans: &mut Vec<FieldLineSpan>,
    mut observe: impl FnMut(&'i [u8], &'i [u8]) -> Result<(), Error>,
) -> Result<Option<usize>, Error> {
    let view = limit.view(input, start);
    let mut at = start;
    loop {
        if let [b'\r', b'\n', ..] = view[at..] {
            return Ok(Some(at + 2));
        }
        match parse_line(view, at)? {
            Line::Field(span, next) => {
                if spans.len() >= limit.field_lines as usize {
                    return Err(Error::FieldLinesTooMany);
                }
                spans.push(span);
                observe(
                    &view[span.name_start as usize..span.name_end as usize],
                    &view[span.value_start as usize..span.value_end as usize],
                )?;
                at = next;
            }
            Line::Partial => return limit.check_partial(view, start).map(|()| None),
        }
    }
}

/// The state of an incomplete section. The part that has arrived is valid.
///
/// If a client sends a head byte by byte, the parser must not parse the whole section again for each byte.
/// The parser therefore parses the whole section again only after the end of a line. A limit bounds the
/// number of lines. While a line is incomplete, the parser parses only the incomplete line.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PartialSection {
    start: usize,
    /// Number of input bytes that the parser has already parsed, or 0 if there is no incomplete section.
    seen: usize,
}

impl PartialSection {
    /// Records that the parser has read all of `input`. The section begins at `start`.
    pub(crate) fn new(start: usize, input: &[u8]) -> Self {
        Self { start, seen: input.len() }
    }

    /// Returns `true` if no line has ended since the last parse, and the incomplete line is valid so far.
    /// If the result is `false`, this function has cleared the state, and the caller must parse the whole
    /// section.
    #[inline]
    pub(crate) fn is_same_line(&mut self, input: &[u8], limit: SectionLimit) -> Result<bool, Error> {
        if self.seen == 0 { Ok(false) } else { core::mem::take(self).check_same_line(self, input, limit) }
    }

    #[cold]
    fn check_same_line(self, kept: &mut Self, input: &[u8], limit: SectionLimit) -> Result<bool, Error> {
        let Some((seen, new)) = input.split_at_checked(self.seen) else { return Ok(false) };
        if memchr::memchr(b'\n', new).is_some() {
            return Ok(false);
        }
        let line_start = memchr::memrchr(b'\n', seen).map_or(0, |line_feed| line_feed + 1);
        let view = limit.view(input, self.start);
        let Line::Partial = parse_line(view, line_start)? else { return Ok(false) };
        limit.check_partial(view, self.start)?;
        *kept = Self::new(self.start, input);
        Ok(true)
    }
}

impl SectionLimit {
    /// Returns the limit of a header section.
    #[inline]
    pub(crate) const fn of_header(limits: &Limits) -> Self {
        Self {
            bytes: limits.header_section_bytes,
            field_lines: limits.field_lines,
            too_large: Error::HeaderSectionTooLarge,
        }
    }

    /// Returns the part of `input` that a section at `start` may use. The parser ignores bytes beyond the
    /// limit, so that the result does not depend on the size of `input`.
    #[inline]
    fn view(self, input: &[u8], start: usize) -> &[u8] {
        &input[..input.len().min(self.end(start))]
    }

    /// Returns an error if the incomplete section at `start` has reached the size limit.
    fn check_partial(self, view: &[u8], start: usize) -> Result<(), Error> {
        if view.len() < self.end(start) { Ok(()) } else { Err(self.too_large) }
    }

    /// Returns the maximum end of a section that begins at `start`. A section must
    /// end below 4 GiB, because spans contain 32-bit positions.
    #[inline]
    fn end(self, start: usize) -> usize {
        start.saturating_add(self.bytes as usize).min(u32::MAX as usize)
    }
}

enum Line {
    /// A field line, and the start of the next line.
    Field(FieldLineSpan, usize),
    /// The line is incomplete.
    Partial,
}

/// Parses `field-line = field-name ":" OWS field-value OWS` (RFC 9112 §5).
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "without inlining, copying the result takes 5 % of the time to parse a head"
)]
#[expect(clippy::cast_possible_truncation, reason = "no view is longer than `u32::MAX`")]
fn parse_line(view: &[u8], start: usize) -> Result<Line, Error> {
    let name_end = scan::token_end(view, start);
    match view.get(name_end) {
        Some(b':') if name_end > start => {}
        None => return Ok(Line::Partial),
        Some(_) => return parse_line_without_name(view, start, name_end),
    }
    let mut value_start = name_end + 1;
    while value_start < view.len() && is_whitespace(view[value_start]) {
        value_start += 1;
    }
    let line_end = scan::field_value_end(view, value_start);
    let Some(next) = parse_line_end(view, line_end)? else {
        return Ok(Line::Partial);
    };
    let mut value_end = line_end;
    while value_end > value_start && is_whitespace(view[value_end - 1]) {
        value_end -= 1;
    }
    let span = FieldLineSpan {
        name_start: start as u32,
        name_end: name_end as u32,
        value_start: value_start as u32,
        value_end: value_end as u32,
    };
    Ok(Line::Field(span, next))
}

/// Handles a line at `start` that has no colon after its name. The token characters of the line end at
/// `name_end`.
#[cold]
#[inline(never)]
fn parse_line_without_name(view: &[u8], start: usize, name_end: usize) -> Result<Line, Error> {
    match view[name_end] {
        // The caller has already handled complete empty lines, so this line end is incomplete or invalid.
        b'\r' | b'\n' if name_end == start => parse_line_end(view, start).map(|_| Line::Partial),
        b' ' | b'\t' if name_end == start => Err(Error::LineFolding),
        b' ' | b'\t' => Err(Error::WhitespaceBeforeColon),
        b'\n' => Err(Error::BareLineFeed),
        _ => Err(Error::FieldNameInvalid),
    }
}
