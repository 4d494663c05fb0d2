//! The buckets of all keys, in a table whose size does not change.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::decide::Rate;

/// The buckets, in sets that are locked one by one, for as long as it takes to look through eight of them.
pub(super) struct Buckets {
    sets: Box<[Mutex<[Bucket; WAYS]>]>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    key: u64,
    /// When it will be full again. A bucket that is full already is as good as none.
    full_at: u64,
}

impl Buckets {
    /// Room for at least `keys` keys.
    pub(super) fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// Takes a token from the bucket of `key`, if there is one; otherwise how long it takes until there is.
    pub(super) fn take(&self, key: u64, rate: Rate, now: u64) -> Result<(), Duration> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % self.sets.len();
        let mut set = self.sets[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = set.iter_mut().find(|bucket| bucket.key == key && bucket.full_at > now) {
            bucket.full_at = rate.take(bucket.full_at, now)?;
            return Ok(());
        }
        let full_at = rate.take(now, now)?;
        if let Some(fullest) = set.iter_mut().min_by_key(|bucket| bucket.full_at) {
            *fullest = Bucket { key, full_at };
        }
        Ok(())
    }

    /// How many octets it takes.
    #[cfg(test)]
    pub(super) fn octets(&self) -> usize {
        size_of_val(&*self.sets)
    }
}

impl std::fmt::Debug for Buckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets").field("sets", &self.sets.len()).finish()
    }
}

/// Buckets in a set. Eight are two cache lines, and enough that few keys are forgotten before the table is full.
const WAYS: usize = 8;
