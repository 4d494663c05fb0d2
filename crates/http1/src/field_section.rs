//! Header and trailer sections: field lines up to an empty line (RFC 9112 §5).

use alloc::vec::Vec;

use thruway_message::token::is_whitespace;
use thruway_message::{FieldLineSpan, FieldLines};

use crate::{Error, scan};

/// Where the field lines of the section parsed last stand. Belongs to the caller, who uses one for all messages.
#[derive(Default)]
pub struct FieldLineIndex {
    spans: Vec<FieldLineSpan>,
}

impl FieldLineIndex {
    /// An index with room for `field_lines`.
    pub fn with_capacity(field_lines: usize) -> Self {
        Self { spans: Vec::with_capacity(field_lines) }
    }

    /// Forgets the lines of the section parsed last.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
    }

    /// The indexed lines of `octets`, which must be what was parsed.
    pub(crate) fn lines<'a>(&'a self, octets: &'a [u8]) -> FieldLines<'a> {
        FieldLines::from_parsed(octets, &self.spans)
    }
}

/// How large a section may be, and the error if it is larger.
#[derive(Clone, Copy)]
pub(crate) struct SectionLimit {
    pub(crate) octets: u32,
    pub(crate) field_lines: u32,
    pub(crate) too_large: Error,
}

/// Parses the section that starts at `start`, up to and with the empty line. Each line goes into `index` and,
/// with its name and value, to `observe`. Returns where the section ends, or `None` while its end is missing.
#[inline]
pub(crate) fn parse(
    input: &[u8],
    start: usize,
    limit: SectionLimit,
    index: &mut FieldLineIndex,
    mut observe: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<Option<usize>, Error> {
    // What is beyond the limit is not looked at, so that how much has arrived does not change the verdict.
    // Spans are 32 bits wide: nothing beyond 4 GiB is looked at either, whatever the limit.
    let section_end = start.saturating_add(limit.octets as usize).min(u32::MAX as usize);
    let view = &input[..input.len().min(section_end)];
    index.spans.clear();
    let mut at = start;
    loop {
        match parse_line(view, at)? {
            Line::Field(span, next) => {
                if index.spans.len() >= limit.field_lines as usize {
                    return Err(Error::FieldLinesTooMany);
                }
                index.spans.push(span);
                observe(
                    &view[span.name_start as usize..span.name_end as usize],
                    &view[span.value_start as usize..span.value_end as usize],
                )?;
                at = next;
            }
            Line::Empty(end) => return Ok(Some(end)),
            Line::Partial if view.len() == section_end => return Err(limit.too_large),
            Line::Partial => return Ok(None),
        }
    }
}

enum Line {
    /// A field line, and where the next line starts.
    Field(FieldLineSpan, usize),
    /// The empty line, and where the section ends.
    Empty(usize),
    /// The line's end has not arrived.
    Partial,
}

/// `field-line = field-name ":" OWS field-value OWS` (RFC 9112 §5).
#[inline]
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

/// The line at `start` has something other than a colon after its token octets, which end at `name_end`.
#[cold]
#[inline(never)]
fn parse_line_without_name(view: &[u8], start: usize, name_end: usize) -> Result<Line, Error> {
    match view[name_end] {
        b'\r' | b'\n' if name_end == start => {
            Ok(parse_line_end(view, start)?.map_or(Line::Partial, Line::Empty))
        }
        b' ' | b'\t' if name_end == start => Err(Error::LineFolding),
        b' ' | b'\t' => Err(Error::WhitespaceBeforeColon),
        b'\n' => Err(Error::BareLineFeed),
        _ => Err(Error::FieldNameInvalid),
    }
}

/// CRLF at `at`, and where the next line starts; `None` if it has not wholly arrived (RFC 9112 §2.2).
#[inline]
pub(crate) fn parse_line_end(view: &[u8], at: usize) -> Result<Option<usize>, Error> {
    match view.get(at..).unwrap_or_default() {
        [b'\r', b'\n', ..] => Ok(Some(at + 2)),
        [] | [b'\r'] => Ok(None),
        [b'\r', ..] => Err(Error::BareCarriageReturn),
        [b'\n', ..] => Err(Error::BareLineFeed),
        _ => Err(Error::FieldValueInvalid),
    }
}
