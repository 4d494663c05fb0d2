//! Tests blocks of 16 bytes on any processor, as two words of 8 bytes.

use super::words;

/// Marks all bytes except letters, digits and dashes.
#[inline]
pub(super) fn unusual_in_token(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::unusual_in_token)
}

/// Marks control characters.
#[inline]
pub(super) fn control(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::control)
}

/// Marks all bytes except visible ASCII, and also `#`, `<`, `>`, `?`, `\` and the backquote.
#[inline]
pub(super) fn not_in_path(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::not_in_path)
}

/// Marks all bytes except visible ASCII, and also `"`, `#`, `<` and `>`.
#[inline]
pub(super) fn not_in_query(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::not_in_query)
}

/// Returns a mask with only the lowest mark. The callers need only this mark, and the marks above it may
/// be wrong.
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
