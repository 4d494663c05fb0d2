//! Classes of octets in blocks of sixteen, for processors of which nothing is known: two words of eight.

use super::words;

/// What is no letter, no digit and no dash.
#[inline]
pub(super) fn unusual_in_token(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::unusual_in_token)
}

/// Control characters.
#[inline]
pub(super) fn control(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::control)
}

/// All bytes but visible ASCII, and `#`, `<`, `>`, `?`, `\` and the backquote.
#[inline]
pub(super) fn not_in_path(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::not_in_path)
}

/// All bytes but visible ASCII, and `"`, `#`, `<` and `>`.
#[inline]
pub(super) fn not_in_query(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::not_in_query)
}

/// Only the lowest bit is sure to be right, and only that is used.
#[inline]
fn in_two_words(block: &[u8; 16], mark: fn(u64) -> u64) -> u32 {
    let [low, high] = [0, 8].map(|at| {
        let word: [u8; 8] = core::array::from_fn(|i| block[at + i]);
        mark(u64::from_le_bytes(word))
    });
    match (low, high) {
        (0, 0) => 0,
        (0, high) => 1 << (8 + high.trailing_zeros() / 8),
        (low, _) => 1 << (low.trailing_zeros() / 8),
    }
}
