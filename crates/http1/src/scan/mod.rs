//! Finds the first byte that belongs to a class of bytes, such as the control characters. Tests up to 16
//! bytes at a time.
//!
//! Each class has three implementations: for one byte, for a word of 8 bytes, and for a block of 16
//! bytes. On x86-64, the implementation for blocks uses vector instructions. The tests compare all
//! implementations with the tables in `thruway_message::token`, for every byte at every position.

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "sse2.rs"]
mod blocks;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[path = "no_blocks.rs"]
mod blocks;
mod words;

use thruway_message::token;

use crate::error::Error;

/// A class of bytes to search for.
trait Class {
    /// Returns a mask with one bit for each byte of `block`. The lowest bit is for the first byte. A bit is 1
    /// if the byte is in the class. Only the lowest bit with the value 1 is reliable: all higher bits may be
    /// wrong.
    fn in_block(block: &[u8; 16]) -> u32;
    /// Returns a word that marks the bytes of `word` that are in the class: the high bit of each
    /// corresponding byte is 1. Only the lowest bit with the value 1 is reliable: all higher bits may be
    /// wrong.
    fn in_word(word: u64) -> u64;
    /// Returns `true` if `byte` is in the class.
    fn has(byte: u8) -> bool;
}

/// Bytes other than letters, digits and dashes. In practice, field names contain only letters, digits and
/// dashes.
struct UnusualInToken;

/// Control characters, including the tab.
struct Control;

/// Bytes that end the path of a request target: `?`, and all bytes that a path must not contain. A path must
/// contain only visible ASCII characters, and must not contain `#`, `<`, `>`, `\` or the backquote.
///
/// RFC 3986 §3.3 also forbids `"`, `[`, `]`, `^`, `{`, `|` and `}` in paths. The parser accepts these bytes
/// because clients send them. The parser rejects `\` because some servers treat a backslash as a slash. The
/// parser rejects `#`, `<`, `>` and the backquote because the HTTP/2 library rejects these bytes. Targets
/// that are valid in one HTTP version must be valid in all HTTP versions.
struct NotInPath;

/// Bytes that the query of a request target must not contain: `"`, `#`, `<`, `>`, and all bytes that are not
/// visible ASCII.
///
/// RFC 3986 §3.4 forbids more bytes. Browsers send `\`, `^`, `{`, `|`, `}` and the backquote in queries, so
/// the parser accepts these bytes.
struct NotInQuery;

/// Parses a CRLF at `at`. Returns the start of the next line, or `None` if the CRLF is incomplete (RFC 9112
/// §2.2).
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

/// Returns the position of the first byte at or after `from` that is not a token character. Returns
/// `input.len()` if all of these bytes are token characters.
#[inline]
pub(crate) fn token_end(input: &[u8], from: usize) -> usize {
    let at = find::<UnusualInToken>(input, from);
    // `UnusualInToken` also contains some rare token characters, such as `_`. A colon ends most names, so
    // the code tests for a colon before it uses the table.
    match input.get(at) {
        Some(byte) if *byte != b':' && token::is_token_byte(*byte) => {
            run_end(input, at + 1, token::is_token_byte)
        }
        _ => at,
    }
}

/// Returns the position of the first byte at or after `from` that is not allowed in a field value. Returns
/// `input.len()` if all of these bytes are allowed.
#[inline]
pub(crate) fn field_value_end(input: &[u8], from: usize) -> usize {
    let at = find::<Control>(input, from);
    // `Control` contains the tab, which is allowed in a value but is rare.
    match input.get(at) {
        Some(b'\t') => run_end(input, at + 1, token::is_field_value_byte),
        _ => at,
    }
}

/// Returns the position of the first byte at or after `from` that ends a path: `?`, or a byte that is not
/// allowed in a path. Returns `input.len()` if no byte ends the path.
#[inline]
pub(crate) fn path_end(input: &[u8], from: usize) -> usize {
    find::<NotInPath>(input, from)
}

/// Returns the position of the first byte at or after `from` that is not allowed in a query. Returns
/// `input.len()` if all of these bytes are allowed.
#[inline]
pub(crate) fn query_end(input: &[u8], from: usize) -> usize {
    find::<NotInQuery>(input, from)
}

/// Returns `true` if the path from `start` to `end` is plain, as
/// [`is_plain_path`](thruway_message::is_plain_path) defines it. Tests blocks of 16 bytes, as long as `input`
/// has enough bytes. The blocks may contain bytes after `end`.
#[inline]
pub(crate) fn is_plain_path(input: &[u8], start: usize, end: usize) -> bool {
    let mut at = start;
    while let Some(block) = input.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        let length = end - at;
        let not_plain = blocks::not_in_plain_path(block);
        if length <= 16 {
            return not_plain & ((1 << length) - 1) == 0;
        }
        if not_plain != 0 {
            return false;
        }
        // The next block begins with the last byte of this block, to test the pair of this byte and the next
        // byte.
        at += 15;
    }
    thruway_message::is_plain_path(&input[at..end])
}

/// Returns the position of the first byte at or after `from` for which `is_inside` returns `false`. Tests one
/// byte at a time, because other rare bytes often follow a rare byte.
#[cold]
fn run_end(input: &[u8], from: usize, is_inside: fn(u8) -> bool) -> usize {
    let length = input[from..].iter().take_while(|byte| is_inside(**byte)).count();
    from + length
}

/// Returns the position of the first byte at or after `from` that is in the class. Returns `input.len()` if
/// no byte is in the class.
#[inline]
fn find<C: Class>(input: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(block) = input.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        let found = C::in_block(block);
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += 16;
    }
    if let Some(word) = input.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = C::in_word(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < input.len() && !C::has(input[at]) {
        at += 1;
    }
    at
}

impl Class for UnusualInToken {
    #[inline]
    fn in_block(block: &[u8; 16]) -> u32 {
        blocks::unusual_in_token(block)
    }

    #[inline]
    fn in_word(word: u64) -> u64 {
        words::unusual_in_token(word)
    }

    fn has(byte: u8) -> bool {
        !byte.is_ascii_alphanumeric() && byte != b'-'
    }
}

impl Class for Control {
    #[inline]
    fn in_block(block: &[u8; 16]) -> u32 {
        blocks::control(block)
    }

    #[inline]
    fn in_word(word: u64) -> u64 {
        words::control(word)
    }

    fn has(byte: u8) -> bool {
        byte.is_ascii_control()
    }
}

impl Class for NotInPath {
    #[inline]
    fn in_block(block: &[u8; 16]) -> u32 {
        blocks::not_in_path(block)
    }

    #[inline]
    fn in_word(word: u64) -> u64 {
        words::not_in_path(word)
    }

    fn has(byte: u8) -> bool {
        !byte.is_ascii_graphic() || matches!(byte, b'#' | b'<' | b'>' | b'?' | b'\\' | b'`')
    }
}

impl Class for NotInQuery {
    #[inline]
    fn in_block(block: &[u8; 16]) -> u32 {
        blocks::not_in_query(block)
    }

    #[inline]
    fn in_word(word: u64) -> u64 {
        words::not_in_query(word)
    }

    fn has(byte: u8) -> bool {
        !byte.is_ascii_graphic() || matches!(byte, b'"' | b'#' | b'<' | b'>')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    type Scan = fn(&[u8], usize) -> usize;
    type IsInside = fn(u8) -> bool;

    const SCANS: [(Scan, IsInside); 4] = [
        (token_end, token::is_token_byte),
        (field_value_end, token::is_field_value_byte),
        (path_end, |byte| byte.is_ascii_graphic() && !b"#<>?\\`".contains(&byte)),
        (query_end, |byte| byte.is_ascii_graphic() && !b"\"#<>".contains(&byte)),
    ];

    #[test]
    fn scan_matches_the_byte_class_at_every_position() {
        for (scan, is_in_class) in SCANS {
            for byte in 0..=255 {
                for (length, place) in
                    (1..20).flat_map(|length| (0..length).map(move |place| (length, place)))
                {
                    let mut input = vec![b'a'; length];
                    input[place] = byte;
                    let expected = if is_in_class(byte) { length } else { place };
                    assert_eq!(scan(&input, 0), expected, "byte {byte:#x} at {place} of {length}");
                }
            }
        }
    }

    #[test]
    fn block_and_word_scans_agree() {
        for byte in 0..=255 {
            for place in 0..16 {
                let mut block = [b'a'; 16];
                block[place] = byte;
                let words = block.first_chunk().zip(block.last_chunk()).unwrap();
                let [low, high] = [words.0, words.1].map(|word| u64::from_le_bytes(*word));
                for (in_block, in_word) in [
                    (
                        blocks::unusual_in_token as fn(&[u8; 16]) -> u32,
                        words::unusual_in_token as fn(u64) -> u64,
                    ),
                    (blocks::control, words::control),
                    (blocks::not_in_path, words::not_in_path),
                    (blocks::not_in_query, words::not_in_query),
                ] {
                    let is_marked = in_word(low) != 0 || in_word(high) != 0;
                    let expected = if is_marked { 1 << place } else { 0 };
                    assert_eq!(in_block(&block), expected, "byte {byte:#x} at {place}");
                }
            }
        }
    }

    #[test]
    fn plain_paths_of_all_lengths_agree_with_the_definition() {
        for pair in 0..=u16::MAX {
            let pair = pair.to_be_bytes();
            // All pairs of bytes that the code treats differently, and all bytes next to a letter.
            if pair[0] != b'a' && !pair.iter().all(|byte| b"/.-9:_AZ[az{;%".contains(byte)) {
                continue;
            }
            for (length, rest) in (2..36).flat_map(|length| [0, 1, 15, 16].map(|rest| (length, rest))) {
                for place in 0..length - 1 {
                    let mut input = vec![b'b'; length];
                    input[place..place + 2].copy_from_slice(&pair);
                    let expected = thruway_message::is_plain_path(&input);
                    input.resize(length + rest, b'/');
                    let found = is_plain_path(&input, 0, length);
                    assert_eq!(found, expected, "{pair:?} at {place} of {length}, before {rest} bytes");
                }
            }
        }
        assert!(is_plain_path(b"", 0, 0) && is_plain_path(b"//", 1, 2));
    }

    #[test]
    fn scan_stops_at_the_first_byte_outside_the_class() {
        for (scan, is_in_class) in SCANS {
            for pair in 0..=u16::MAX {
                let mut input = *b"aaaaaaaaaaaa";
                input[3..5].copy_from_slice(&pair.to_be_bytes());
                let expected = input.iter().position(|byte| !is_in_class(*byte)).unwrap_or(input.len());
                assert_eq!(scan(&input, 0), expected, "{input:?}");
            }
        }
    }

    #[test]
    fn scan_starts_at_the_given_position() {
        assert_eq!(token_end(b": name: value", 2), 6);
        assert_eq!(field_value_end(b"a\r", 2), 2);
    }
}
