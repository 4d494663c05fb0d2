//! Tests words of 8 bytes. To mark a byte, a function sets the high bit of this byte in the returned word.

/// Marks all bytes except letters, digits and dashes.
#[inline]
pub(super) fn unusual_in_token(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    let lower_case = low | repeat(b' ');
    let letter = at_least(lower_case, b'a') & !at_least(lower_case, b'z' + 1);
    let digit = at_least(low, b'0') & !at_least(low, b'9' + 1);
    let not_dash = (low ^ repeat(b'-')) + !HIGH_BITS;
    !((letter | digit | !not_dash) & !word) & HIGH_BITS
}

/// Marks control characters.
#[inline]
pub(super) fn control(word: u64) -> u64 {
    let below_space = word.wrapping_sub(repeat(b' ')) & !word;
    (below_space | equal(word, DELETE)) & HIGH_BITS
}

/// Marks `#`, `<`, `>`, `?`, `\`, the backquote, and all bytes that are not visible ASCII.
#[inline]
pub(super) fn not_in_path(word: u64) -> u64 {
    let slash_like = equal(word, b'\\') | equal(word, b'`');
    (not_visible(word) | angle_bracket(word) | equal(word, b'#') | equal(word, b'?') | slash_like) & HIGH_BITS
}

/// Marks `"`, `#`, `<`, `>`, and all bytes that are not visible ASCII.
#[inline]
pub(super) fn not_in_query(word: u64) -> u64 {
    // `"` and `#` differ only in the lowest bit.
    let quote_or_hash = equal(word | repeat(1), b'#');
    (not_visible(word) | angle_bracket(word) | quote_or_hash) & HIGH_BITS
}

#[inline]
fn not_visible(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    !at_least(low, b'!') | at_least(low, DELETE) | word
}

/// Marks `<` and `>`, which differ only in the second-lowest bit.
#[inline]
fn angle_bracket(word: u64) -> u64 {
    equal(word | repeat(2), b'>')
}

/// Marks the bytes of `low` that are at least `bound`. The high bit of each byte of `low` must be clear.
#[inline]
fn at_least(low: u64, bound: u8) -> u64 {
    low + repeat(0x80 - bound)
}

/// Marks the lowest byte that equals `byte`. May also mark higher bytes that differ from `byte`.
#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    difference.wrapping_sub(repeat(1)) & !difference
}

const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

const HIGH_BITS: u64 = repeat(0x80);
const DELETE: u8 = 0x7f;
