//! Decodes the chunked transfer coding (RFC 9112 §7.1).

use core::ops::Range;

use thruway_message::token::{is_token_byte, is_whitespace};

use crate::error::Error;
use crate::field_section::{self, SectionLimit};
use crate::head_index::HeadIndex;
use crate::limits::Limits;
use crate::scan;
use crate::scan::parse_line_end;

/// Decodes one chunked body.
///
/// ```text
///  ┌────────────────────────────────────────────┐
///  ▼                                            │
/// ExpectSize ──size──▶ ExpectData ──all──▶ ExpectDataEnd
///  └──────────size 0──▶ ExpectTrailers ──empty line──▶ (end)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkedDecoder {
    state: State,
    received: u64,
    /// Overhead of the chunk-size lines so far, in bytes: see [`Limits::chunk_extension_bytes`].
    excess: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    ExpectSize,
    ExpectData { remaining: u64 },
    ExpectDataEnd,
    ExpectTrailers,
}

/// A decoded piece, and the number of input bytes that the decoder consumed.
pub(crate) struct Decoded {
    pub(crate) piece: Piece,
    pub(crate) used: usize,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// A piece of content at this range of the input.
    Data(Range<usize>),
    /// The end of the body. The index contains the trailer section.
    End,
    /// No piece, because the decoder needs more bytes.
    Partial,
}

impl ChunkedDecoder {
    pub(crate) const fn new() -> Self {
        Self { state: State::ExpectSize, received: 0, excess: 0 }
    }

    /// Returns the next piece of content. The function returns the longest piece that `input` contains.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        index: &mut HeadIndex,
    ) -> Result<Decoded, Error> {
        let mut used = 0;
        loop {
            let partial = Ok(Decoded { piece: Piece::Partial, used });
            match self.state {
                State::ExpectSize => {
                    let Some(line) = parse_chunk_line(&input[used..], limits.chunk_extension_bytes)? else {
                        return partial;
                    };
                    used += line.length;
                    self.start_chunk(&line, limits)?;
                }
                State::ExpectData { .. } if used == input.len() => return partial,
                State::ExpectData { remaining } => {
                    let length = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.len() - used);
                    self.take_data(remaining - length as u64);
                    return Ok(Decoded { piece: Piece::Data(used..used + length), used: used + length });
                }
                State::ExpectDataEnd => match parse_data_end(&input[used..])? {
                    Some(length) => {
                        used += length;
                        self.state = State::ExpectSize;
                    }
                    None => return partial,
                },
                State::ExpectTrailers => {
                    return match parse_trailers(input, used, limits, index)? {
                        Some(end) => Ok(Decoded { piece: Piece::End, used: end }),
                        None => partial,
                    };
                }
            }
        }
    }

    fn start_chunk(&mut self, line: &ChunkLine, limits: &Limits) -> Result<(), Error> {
        self.received = self.received.checked_add(line.size).ok_or(Error::ChunkSizeOverflow)?;
        if self.received > limits.content_bytes {
            return Err(Error::ContentTooLarge);
        }
        let justified = CHUNK_OVERHEAD_BYTES.saturating_add(line.size / 8);
        self.excess = (self.excess + line.length as u64).saturating_sub(justified);
        if self.excess > u64::from(limits.chunk_extension_bytes) {
            return Err(Error::ChunkExtensionsTooLong);
        }
        self.state = match line.size {
            0 => State::ExpectTrailers,
            size => State::ExpectData { remaining: size },
        };
        Ok(())
    }

    fn take_data(&mut self, remaining: u64) {
        self.state = match remaining {
            0 => State::ExpectDataEnd,
            remaining => State::ExpectData { remaining },
        };
    }
}

struct ChunkLine {
    size: u64,
    length: usize,
}

/// Parses `chunk-size [ chunk-ext ] CRLF`. Returns `None` if the line is incomplete.
fn parse_chunk_line(input: &[u8], extension_bytes_max: u32) -> Result<Option<ChunkLine>, Error> {
    let digits =
        input.iter().take(CHUNK_SIZE_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > CHUNK_SIZE_DIGITS_MAX {
        return Err(Error::ChunkSizeOverflow);
    }
    let extension_end_max = digits.saturating_add(extension_bytes_max as usize);
    let view = &input[..input.len().min(extension_end_max.saturating_add(LINE_END_BYTES))];
    match view.get(digits) {
        None => return Ok(None),
        Some(b'\r' | b'\n' | b';' | b' ' | b'\t') if digits > 0 => {}
        Some(_) => return Err(Error::ChunkSizeInvalid),
    }
    let line_end = scan::field_value_end(view, digits);
    if line_end > extension_end_max {
        return Err(Error::ChunkExtensionsTooLong);
    }
    let length = match parse_line_end(view, line_end) {
        Ok(Some(length)) => length,
        Ok(None) => return Ok(None),
        Err(Error::FieldValueInvalid) => return Err(Error::ChunkExtensionInvalid),
        Err(error) => return Err(error),
    };
    if !are_extensions(&view[digits..line_end]) {
        return Err(Error::ChunkExtensionInvalid);
    }
    let size = view[..digits].iter().fold(0, |size, digit| (size << 4) | hex_value(*digit));
    Ok(Some(ChunkLine { size, length }))
}

/// Returns `true` if `bytes` matches `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC
/// 9112 §7.1.1). The parser ignores the meaning of chunk extensions.
fn are_extensions(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some(name) = skip_whitespace(bytes).strip_prefix(b";") else {
            return false;
        };
        let name = skip_whitespace(name);
        let after_name = skip_token(name);
        if after_name.len() == name.len() {
            return false;
        }
        bytes = match skip_whitespace(after_name).strip_prefix(b"=") {
            None => after_name,
            Some(value) => match skip_extension_value(skip_whitespace(value)) {
                Some(rest) => rest,
                None => return false,
            },
        };
    }
    true
}

/// Skips a `token` or a `quoted-string` at the start of `bytes`. Returns the remaining bytes, or `None` if
/// `bytes` does not begin with a valid `token` or `quoted-string`.
fn skip_extension_value(bytes: &[u8]) -> Option<&[u8]> {
    let Some(mut quoted) = bytes.strip_prefix(b"\"") else {
        let rest = skip_token(bytes);
        return (rest.len() < bytes.len()).then_some(rest);
    };
    loop {
        quoted = match quoted {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
            [] => return None,
        };
    }
}

fn skip_whitespace(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().take_while(|byte| is_whitespace(**byte)).count();
    &bytes[length..]
}

fn skip_token(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().take_while(|byte| is_token_byte(**byte)).count();
    &bytes[length..]
}

/// Parses the CRLF after the data of a chunk. Returns the length of the CRLF, or `None` if the CRLF is
/// incomplete.
fn parse_data_end(input: &[u8]) -> Result<Option<usize>, Error> {
    parse_line_end(input, 0).map_err(|error| match error {
        Error::BareLineFeed => Error::BareLineFeed,
        _ => Error::ChunkDataPastSize,
    })
}

/// Parses the trailer section at `start`. Returns the end of the section, or `None` if the section is
/// incomplete (RFC 9112 §7.1.2).
fn parse_trailers(
    input: &[u8],
    start: usize,
    limits: &Limits,
    index: &mut HeadIndex,
) -> Result<Option<usize>, Error> {
    let limit = SectionLimit {
        bytes: limits.trailer_section_bytes,
        field_lines: limits.field_lines,
        too_large: Error::TrailerSectionTooLarge,
    };
    field_section::parse(input, start, limit, index.clear(), |name, _| check_trailer_name(name))
}

/// Rejects the name of a field that affects framing or routing. Recipients need such a field before the
/// content, so a trailer section must not contain such a field (RFC 9110 §6.5.1).
///
/// # Errors
/// Returns [`Error::TrailerFieldForbidden`] if `name` is the name of a field that affects framing or routing.
/// The comparison ignores case.
pub fn check_trailer_name(name: &[u8]) -> Result<(), Error> {
    let is_forbidden =
        FORBIDDEN_TRAILERS.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden.as_bytes()));
    if is_forbidden { Err(Error::TrailerFieldForbidden) } else { Ok(()) }
}

fn hex_value(digit: u8) -> u64 {
    u64::from(match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    })
}

const FORBIDDEN_TRAILERS: [&str; 8] =
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// Maximum number of hexadecimal digits in a chunk size, for 64 bits.
const CHUNK_SIZE_DIGITS_MAX: usize = 16;
const LINE_END_BYTES: usize = 2;

/// Maximum length of a chunk-size line without extensions, in bytes.
const CHUNK_OVERHEAD_BYTES: u64 = (CHUNK_SIZE_DIGITS_MAX + LINE_END_BYTES) as u64;
