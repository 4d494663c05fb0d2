//! Counts of requests in the current window of each key.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts of many keys, in sets of eight. If a set has no space for a new key, the table forgets the key with the
/// lowest count.
pub(super) struct WindowCounts {
    sets: Box<[Mutex<[Count; WAYS]>]>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    key: u64,
    /// Start of the window.
    window: u64,
    requests: u32,
}

impl WindowCounts {
    /// Creates a table with space for at least `keys` keys. A key needs 25 bytes.
    pub(super) fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// Counts one more request in `window`. Returns `false` if the key already has `max` requests.
    pub(super) fn add(&self, key: u64, window: u64, max: u32) -> bool {
        let mut set = self.set(key);
        let known =
            set.iter().position(|count| count.key == key && count.window == window && count.requests > 0);
        let place = known.unwrap_or_else(|| {
            let worth = |place: &usize| (set[*place].window == window, set[*place].requests);
            let place = (0..WAYS).min_by_key(worth).unwrap_or_default();
            set[place] = Count { key, window, requests: 0 };
            place
        });
        let is_within = set[place].requests < max;
        set[place].requests += u32::from(is_within);
        is_within
    }

    fn set(&self, key: u64) -> MutexGuard<'_, [Count; WAYS]> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % self.sets.len();
        self.sets[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_and_each_window_has_its_own_count() {
        let counts = WindowCounts::new(8);
        assert!(counts.add(1, 10, 2) && counts.add(1, 10, 2));
        assert!(!counts.add(1, 10, 2));
        assert!(counts.add(2, 10, 2));
        assert!(counts.add(1, 20, 2));
    }

    #[test]
    fn full_table_keeps_the_keys_with_most_requests() {
        let counts = WindowCounts::new(8);
        assert!(counts.add(1, 10, 2) && counts.add(1, 10, 2));
        (2..100).for_each(|key| assert!(counts.add(key, 10, 2)));
        assert!(!counts.add(1, 10, 2));
    }
}
