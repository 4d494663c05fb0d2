//! Counts the calls in flight for each key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of calls in flight for each key. A key without calls in flight needs no memory.
#[derive(Debug)]
pub(super) struct CallsInFlight {
    counts: Arc<Mutex<HashMap<u64, u32>>>,
    max: u32,
}

/// A call in flight. Dropping the value ends the call.
#[derive(Debug)]
pub(in crate::federation) struct CallPermit {
    counts: Arc<Mutex<HashMap<u64, u32>>>,
    key: u64,
}

impl CallsInFlight {
    /// Permits at most `max` calls in flight for each key.
    pub(super) fn new(max: u32) -> Self {
        Self { counts: Arc::default(), max }
    }

    /// Counts one more call. Returns `None` if the maximum is reached.
    pub(super) fn enter(&self, key: u64) -> Option<CallPermit> {
        let mut counts = lock(&self.counts);
        let count = counts.entry(key).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(CallPermit { counts: self.counts.clone(), key })
    }

    /// Counts an admitted call that continues, for example as a task. Ignores the maximum.
    pub(super) fn enter_again(&self, key: u64) -> CallPermit {
        *lock(&self.counts).entry(key).or_default() += 1;
        CallPermit { counts: self.counts.clone(), key }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = lock(&self.counts).entry(self.key) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn lock(counts: &Mutex<HashMap<u64, u32>>) -> MutexGuard<'_, HashMap<u64, u32>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_calls_need_no_memory() {
        let in_flight = CallsInFlight::new(2);
        let first = in_flight.enter(1).unwrap();
        let second = in_flight.enter(1).unwrap();
        assert!(in_flight.enter(1).is_none());
        assert!(in_flight.enter(2).is_some());
        drop(first);
        assert!(in_flight.enter(1).is_some());
        drop(second);
        assert!(lock(&in_flight.counts).is_empty());
    }
}
