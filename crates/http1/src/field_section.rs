//! Header and trailer sections: field lines up to an empty line (RFC 9112 §5).

use alloc::vec::Vec;

use thruway_message::FieldLineSpan;
use thruway_message::token::is_whitespace;

use crate::error::Error;
use crate::limits::Limits;
use crate::scan;
use crate::scan::parse_line_end;

/// How large a section may be, and the error if it is larger.
#[derive(Clone, Copy)]
pub(crate) struct SectionLimit {
    pub(crate) octets: u32,
    pub(crate) field_lines: u32,
    pub(crate) too_large: Error,
}

/// Parses the section that starts at `start`, up to and with the empty line. Each line goes into `spans` and,
/// with its name and value, to `observe`. Returns where the section ends, or `None` while its end is missing.
#[inline]
pub(crate) fn parse<'i>(
    input: &'i [u8],
    start: usize,
    limit: SectionLimit,
    spans: &mut Vec<FieldLineSpan>,
    mut observe: impl FnMut(&'i [u8], &'i [u8]) -> Result<(), Error>,
) -> Result<Option<usize>, Error> {
    let view = limit.view(input, start);
    spans.clear();
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

/// A section of which a part has arrived and was found to be sound.
///
/// A client that sends a head octet by octet must not have it parsed anew each time. There can be no more
/// lines than their limit: so the whole is parsed when a line has ended, and until then only the unfinished
/// line.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PartialSection {
    start: usize,
    /// How many octets were looked at; 0 if none.
    seen: usize,
}

impl PartialSection {
    /// All of `input` was looked at, in which the section starts at `start`.
    pub(crate) fn new(start: usize, input: &[u8]) -> Self {
        Self { start, seen: input.len() }
    }

    /// Whether `input` still ends within the line in which it ended when it was looked at, which is sound so
    /// far. If it does not, the whole must be parsed again, and this is forgotten.
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
    /// That of a header section.
    #[inline]
    pub(crate) const fn of_header(limits: &Limits) -> Self {
        Self {
            octets: limits.header_section_bytes,
            field_lines: limits.field_lines,
            too_large: Error::HeaderSectionTooLarge,
        }
    }

    /// The part of `input` that a section at `start` may take. What is beyond is not looked at, so that how
    /// much has arrived does not change the verdict.
    #[inline]
    fn view(self, input: &[u8], start: usize) -> &[u8] {
        &input[..input.len().min(self.end(start))]
    }

    /// Refuses an unfinished section at `start` that has filled its `view`.
    fn check_partial(self, view: &[u8], start: usize) -> Result<(), Error> {
        if view.len() < self.end(start) { Ok(()) } else { Err(self.too_large) }
    }

    /// Spans are 32 bits wide: there is nothing beyond 4 GiB, whatever the limit.
    #[inline]
    fn end(self, start: usize) -> usize {
        start.saturating_add(self.octets as usize).min(u32::MAX as usize)
    }
}

enum Line {
    /// A field line, and where the next line starts.
    Field(FieldLineSpan, usize),
    /// The line's end has not arrived.
    Partial,
}

/// `field-line = field-name ":" OWS field-value OWS` (RFC 9112 §5).
#[inline(always)]
#[expect(clippy::inline_always, reason = "what it returns would be copied: 5 % of the time of a head")]
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
        // No whole empty line: that has been looked for.
        b'\r' | b'\n' if name_end == start => parse_line_end(view, start).map(|_| Line::Partial),
        b' ' | b'\t' if name_end == start => Err(Error::LineFolding),
        b' ' | b'\t' => Err(Error::WhitespaceBeforeColon),
        b'\n' => Err(Error::BareLineFeed),
        _ => Err(Error::FieldNameInvalid),
    }
}
