//! Reproducible random numbers: a seed gives the same sequence on every machine.

/// Pseudo-random number generator (xorshift64*). Not suitable for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from `seed`.
    pub const fn new(seed: u64) -> Self {
        // The multiplication gives consecutive seeds unrelated states. A state of 0 would yield only zeros.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        ((self.next_u64() >> 11) % bound as u64) as usize
    }

    /// Returns `true` with probability `1 / n`.
    pub const fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`.
    ///
    /// # Panics
    /// Panics if `choices` is empty.
    pub const fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns `length` random bytes from `alphabet`.
    ///
    /// # Panics
    /// Panics if `alphabet` is empty and `length` is not 0.
    pub fn bytes(&mut self, alphabet: &[u8], length: usize) -> Vec<u8> {
        (0..length).map(|_| *self.pick(alphabet)).collect()
    }
}
