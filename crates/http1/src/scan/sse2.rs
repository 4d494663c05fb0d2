//! Tests blocks of 16 bytes with SSE2 instructions, which every x86-64 processor has.
//!
//! Each function for a class returns a mask with one bit for each byte. To mark a byte, the function sets the
//! bit of this byte. Only this module of the crate contains unsafe code, because Rust requires `unsafe` for
//! vector instructions. On processors without SSE2, and in Miri, `no_blocks.rs` replaces this module.
#![expect(unsafe_code, reason = "vector instructions; the SAFETY comments explain why each use is sound")]

use core::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_set1_epi8,
};

/// Marks all bytes except letters, digits and dashes.
#[inline]
pub(super) fn unusual_in_token(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let bytes = load(block);
        let lower_case = _mm_or_si128(bytes, repeat(b' '));
        let letter = is_in_range(lower_case, b'a', 26);
        let digit = is_in_range(bytes, b'0', 10);
        let dash = _mm_cmpeq_epi8(bytes, repeat(b'-'));
        !to_bits(_mm_or_si128(_mm_or_si128(letter, digit), dash)) & ALL
    }
}

/// Marks control characters.
#[inline]
pub(super) fn control(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let bytes = load(block);
        to_bits(_mm_or_si128(is_in_range(bytes, 0, 32), _mm_cmpeq_epi8(bytes, repeat(DELETE))))
    }
}

/// Marks `#`, `<`, `>`, `?`, `\`, the backquote, and all bytes that are not visible ASCII.
#[inline]
pub(super) fn not_in_path(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let bytes = load(block);
        let hash = _mm_cmpeq_epi8(bytes, repeat(b'#'));
        let question_mark = _mm_cmpeq_epi8(bytes, repeat(b'?'));
        let backslash = _mm_cmpeq_epi8(bytes, repeat(b'\\'));
        let backquote = _mm_cmpeq_epi8(bytes, repeat(b'`'));
        let other = _mm_or_si128(_mm_or_si128(hash, question_mark), _mm_or_si128(backslash, backquote));
        to_bits(_mm_or_si128(is_not_visible_or_angle_bracket(bytes), other))
    }
}

/// Marks `"`, `#`, `<`, `>`, and all bytes that are not visible ASCII.
#[inline]
pub(super) fn not_in_query(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let bytes = load(block);
        // `"` and `#` differ only in the lowest bit.
        let quote_or_hash = _mm_cmpeq_epi8(_mm_or_si128(bytes, repeat(1)), repeat(b'#'));
        to_bits(_mm_or_si128(is_not_visible_or_angle_bracket(bytes), quote_or_hash))
    }
}

/// Marks all bytes that a plain path must not contain, and each slash or dot after a slash.
#[inline]
pub(super) fn not_in_plain_path(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let bytes = load(block);
        let letter = is_in_range(_mm_or_si128(bytes, repeat(b' ')), b'a', 26);
        // The dash, the dot, the slash and the digits.
        let from_dash_to_nine = is_in_range(bytes, b'-', 13);
        let underscore = _mm_cmpeq_epi8(bytes, repeat(b'_'));
        let allowed = to_bits(_mm_or_si128(_mm_or_si128(letter, from_dash_to_nine), underscore));
        let slash = to_bits(_mm_cmpeq_epi8(bytes, repeat(b'/')));
        // The dot and the slash differ only in the lowest bit.
        let slash_or_dot = to_bits(_mm_cmpeq_epi8(_mm_or_si128(bytes, repeat(1)), repeat(b'/')));
        (!allowed & ALL) | ((slash << 1) & slash_or_dot)
    }
}

#[inline]
fn is_not_visible_or_angle_bracket(bytes: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        // The comparison is signed, so bytes above 127 are negative and smaller than the exclamation
        // mark.
        let not_visible = _mm_cmplt_epi8(bytes, repeat(b'!'));
        let delete = _mm_cmpeq_epi8(bytes, repeat(DELETE));
        // `<` and `>` differ only in the second-lowest bit.
        let angle_bracket = _mm_cmpeq_epi8(_mm_or_si128(bytes, repeat(2)), repeat(b'>'));
        _mm_or_si128(not_visible, _mm_or_si128(delete, angle_bracket))
    }
}

#[inline]
fn load(block: &[u8; 16]) -> __m128i {
    // SAFETY: SSE2 is part of x86-64. The block has 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
fn repeat(byte: u8) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set1_epi8(byte.cast_signed()) }
}

/// Returns a vector in which all bits of a byte are set if the input byte is in the range. The range has
/// `count` bytes and begins with `first`.
#[inline]
fn is_in_range(bytes: __m128i, first: u8, count: u8) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        // SSE2 has no unsigned comparison, so the addition moves the range to the lowest signed numbers.
        let moved = _mm_add_epi8(bytes, repeat(LOWEST.wrapping_sub(first)));
        _mm_cmplt_epi8(moved, repeat(LOWEST + count))
    }
}

/// Returns a mask with the high bit of each byte.
#[inline]
fn to_bits(bytes: __m128i) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_movemask_epi8(bytes) }.cast_unsigned()
}

const ALL: u32 = 0xffff;
const DELETE: u8 = 0x7f;

/// The lowest signed 8-bit number, as an unsigned byte.
const LOWEST: u8 = 0x80;
