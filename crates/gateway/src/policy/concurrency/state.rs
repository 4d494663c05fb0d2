//! Counts the requests in flight for each key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of requests in flight for each key. Keys without requests in flight have no entry.
#[derive(Default, Debug)]
pub(super) struct Counts {
    shards: [Mutex<HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>>; SHARDS],
}

/// A permit for one request in flight. Dropping the permit ends the request.
#[derive(Debug)]
pub(crate) struct Permit {
    counts: Arc<Counts>,
    key: u64,
}

/// A hasher that returns the key unchanged, because the keys are hashes already.
#[derive(Default)]
pub(super) struct IdentityHasher(u64);

type Shard<'c> = MutexGuard<'c, HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>>;

impl Counts {
    /// Counts one more request with this key. Returns `None` if the key already has `requests_max` requests
    /// in flight.
    pub(super) fn enter(self: &Arc<Self>, key: u64, requests_max: u32) -> Option<Permit> {
        let mut shard = self.shard(key);
        let count = shard.entry(key).or_insert(0);
        if *count >= requests_max {
            return None;
        }
        *count += 1;
        drop(shard);
        Some(Permit { counts: self.clone(), key })
    }

    fn leave(&self, key: u64) {
        if let Entry::Occupied(mut count) = self.shard(key).entry(key) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Returns the number of keys that have requests in flight.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    fn shard(&self, key: u64) -> Shard<'_> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.counts.leave(self.key);
    }
}

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

const SHARDS: usize = 32;
