//! Tests blocks of 16 bytes on any processor, as two words of 8 bytes. To mark a byte, a function sets the
//! bit of this byte in the returned mask.

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

/// Marks `#`, `<`, `>`, `?`, `\`, the backquote, and all bytes that are not visible ASCII.
#[inline]
pub(super) fn not_in_path(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::not_in_path)
}

/// Marks `"`, `#`, `<`, `>`, and all bytes that are not visible ASCII.
#[inline]
pub(super) fn not_in_query(block: &[u8; 16]) -> u32 {
    in_two_words(block, words::not_in_query)
}

/// Marks the first byte that a plain path must not contain, or the first slash or dot after a slash.
#[inline]
pub(super) fn not_in_plain_path(block: &[u8; 16]) -> u32 {
    let end = thruway_message::plain_path_end(block);
    if end == block.len() { 0 } else { 1 << end }
}

/// Returns a mask in which only the bit of the first marked byte is set. Bits of later bytes could be wrong,
/// and the callers do not need these bits.
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
