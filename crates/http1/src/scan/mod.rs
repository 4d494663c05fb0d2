//! Finds where a run of octets of one class ends, eight octets at a time.
//!
//! Each function has a portable table of the class in `thruway_message::token` beside it; the tests compare
//! the two on every octet at every place.

use thruway_message::token;

/// The first place from `from` on that holds no token octet; `input.len()` if there is none.
#[inline]
pub(crate) fn token_end(input: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = first_marked(input, at, unusual_in_token, |octet| !is_usual_in_token(octet));
        // The rarer token characters are not worth a place in the word-wise test.
        if at < input.len() && token::is_token_octet(input[at]) {
            at += 1;
        } else {
            return at;
        }
    }
}

/// The first place from `from` on that holds an octet no field value may hold; `input.len()` if there is none.
#[inline]
pub(crate) fn field_value_end(input: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = first_marked(input, at, control, |octet| octet < b' ' || octet == DELETE);
        // A tab is a control character that may stand in a value; it is rare.
        if at < input.len() && input[at] == b'\t' {
            at += 1;
        } else {
            return at;
        }
    }
}

/// The first place from `from` on that holds an octet no request target may hold: anything but visible ASCII
/// (RFC 3986 §2). `input.len()` if there is none.
#[inline]
pub(crate) fn target_end(input: &[u8], from: usize) -> usize {
    first_marked(input, from, not_visible, |octet| !octet.is_ascii_graphic())
}

/// Walks words of eight octets until `mark_word` marks one, then single octets until `mark` does. A mark is the
/// high bit of an octet; those above the lowest mark of a word may be wrong.
#[inline]
fn first_marked(input: &[u8], from: usize, mark_word: fn(u64) -> u64, mark: fn(u8) -> bool) -> usize {
    let mut at = from;
    while let Some(word) = input.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = mark_word(u64::from_le_bytes(*word));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < input.len() && !mark(input[at]) {
        at += 1;
    }
    at
}

/// Marks what is no letter, no digit and no dash: the names in use hold nothing else.
#[inline]
fn unusual_in_token(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    let lower_case = low | repeat(b' ');
    let letter = at_least(lower_case, b'a') & !at_least(lower_case, b'z' + 1);
    let digit = at_least(low, b'0') & !at_least(low, b'9' + 1);
    let not_dash = (low ^ repeat(b'-')) + !HIGH_BITS;
    !((letter | digit | !not_dash) & !word) & HIGH_BITS
}

fn is_usual_in_token(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || octet == b'-'
}

/// Marks control characters, tab among them.
#[inline]
fn control(word: u64) -> u64 {
    let below_space = word.wrapping_sub(repeat(b' ')) & !word;
    let other_than_delete = word ^ repeat(DELETE);
    let delete = other_than_delete.wrapping_sub(repeat(1)) & !other_than_delete;
    (below_space | delete) & HIGH_BITS
}

/// Marks all but visible ASCII.
#[inline]
fn not_visible(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    (!at_least(low, b'!') | at_least(low, DELETE) | word) & HIGH_BITS
}

/// The high bit of each octet of `low` that is at least `bound`. No octet of `low` may have its high bit set.
#[inline]
fn at_least(low: u64, bound: u8) -> u64 {
    low + repeat(0x80 - bound)
}

const fn repeat(octet: u8) -> u64 {
    u64::from_ne_bytes([octet; 8])
}

const HIGH_BITS: u64 = repeat(0x80);
const DELETE: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    type Scan = fn(&[u8], usize) -> usize;

    const SCANS: [(Scan, fn(u8) -> bool); 3] = [
        (token_end, token::is_token_octet),
        (field_value_end, token::is_field_value_octet),
        (target_end, |octet| octet.is_ascii_graphic()),
    ];

    #[test]
    fn every_octet_is_classed_as_the_table_does_at_every_place() {
        for (scan, is_in_class) in SCANS {
            for octet in 0..=255 {
                for (length, place) in
                    (1..20).flat_map(|length| (0..length).map(move |place| (length, place)))
                {
                    let mut input = vec![b'a'; length];
                    input[place] = octet;
                    let expected = if is_in_class(octet) { length } else { place };
                    assert_eq!(scan(&input, 0), expected, "octet {octet:#x} at {place} of {length}");
                }
            }
        }
    }

    #[test]
    fn the_first_of_several_marks_counts() {
        for (scan, is_in_class) in SCANS {
            for pair in 0..=u16::MAX {
                let mut input = *b"aaaaaaaaaaaa";
                input[3..5].copy_from_slice(&pair.to_be_bytes());
                let expected = input.iter().position(|octet| !is_in_class(*octet)).unwrap_or(input.len());
                assert_eq!(scan(&input, 0), expected, "{input:?}");
            }
        }
    }

    #[test]
    fn scanning_starts_where_it_is_told() {
        assert_eq!(token_end(b": name: value", 2), 6);
        assert_eq!(field_value_end(b"a\r", 2), 2);
    }
}
