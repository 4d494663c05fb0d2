//! Random numbers for choices, not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// A number below `bound`, which is not 0.
pub(crate) fn below(bound: u64) -> u64 {
    let state = STATE.get().wrapping_add(STEP);
    STATE.set(state);
    mix(state) % bound
}

/// Spreads the difference of two numbers over all of their bits (the end of `SplitMix64`).
pub(crate) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The golden ratio in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_below_their_bound() {
        let mut counts = [0_u32; 8];
        (0..8_000).for_each(|_| counts[usize::try_from(below(8)).unwrap()] += 1);
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
