//! Classes of octets in blocks of sixteen, with SSE2, which every x86-64 processor has.
//!
//! The only unsafe code of this crate: the compiler wants to be told that the instructions exist. `no_blocks.rs` is the
//! same for other processors and for miri.
#![expect(unsafe_code, reason = "vector instructions; see the comments on safety")]

use core::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_set1_epi8,
};

/// What is no letter, no digit and no dash.
#[inline]
pub(super) fn unusual_in_token(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let octets = load(block);
        let lower_case = _mm_or_si128(octets, repeat(b' '));
        let letter = is_in_range(lower_case, b'a', 26);
        let digit = is_in_range(octets, b'0', 10);
        let dash = _mm_cmpeq_epi8(octets, repeat(b'-'));
        !to_bits(_mm_or_si128(_mm_or_si128(letter, digit), dash)) & ALL
    }
}

/// Control characters.
#[inline]
pub(super) fn control(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let octets = load(block);
        to_bits(_mm_or_si128(is_in_range(octets, 0, 32), _mm_cmpeq_epi8(octets, repeat(DELETE))))
    }
}

/// All but visible ASCII, and `#`, `?` and backslash.
#[inline]
pub(super) fn not_in_path(block: &[u8; 16]) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let octets = load(block);
        let query = _mm_cmpeq_epi8(octets, repeat(b'?'));
        let backslash = _mm_cmpeq_epi8(octets, repeat(b'\\'));
        to_bits(_mm_or_si128(is_not_in_query(octets), _mm_or_si128(query, backslash)))
    }
}

/// All but visible ASCII, and `#`.
#[inline]
pub(super) fn not_in_query(block: &[u8; 16]) -> u32 {
    to_bits(is_not_in_query(load(block)))
}

#[inline]
fn is_not_in_query(octets: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        // As signed numbers, octets above 127 are below the exclamation mark.
        let not_visible = _mm_cmplt_epi8(octets, repeat(b'!'));
        let delete = _mm_cmpeq_epi8(octets, repeat(DELETE));
        let hash = _mm_cmpeq_epi8(octets, repeat(b'#'));
        _mm_or_si128(not_visible, _mm_or_si128(delete, hash))
    }
}

#[inline]
fn load(block: &[u8; 16]) -> __m128i {
    // SAFETY: SSE2 is part of x86-64; the block is sixteen octets, and the load needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
fn repeat(octet: u8) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set1_epi8(octet.cast_signed()) }
}

/// All bits of each octet that is one of the `count` octets from `first` on.
#[inline]
fn is_in_range(octets: __m128i, first: u8, count: u8) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        // There is no comparison of unsigned octets: the range is moved to the lowest signed numbers.
        let moved = _mm_add_epi8(octets, repeat(LOWEST.wrapping_sub(first)));
        _mm_cmplt_epi8(moved, repeat(LOWEST + count))
    }
}

/// One bit for each octet.
#[inline]
fn to_bits(octets: __m128i) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_movemask_epi8(octets) }.cast_unsigned()
}

const ALL: u32 = 0xffff;
const DELETE: u8 = 0x7f;

/// The lowest signed number, as an octet.
const LOWEST: u8 = 0x80;
