//! The budgets of many keys, in a table of a fixed size.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use crate::policy::key::StoreKey;

/// The budgets of a policy, in sets of eight. Each set has a lock, which a request holds only while it searches the
/// eight budgets. If a set has no space for a new key, the table forgets the key of the set that does the least harm.
pub(super) struct BudgetTable {
    sets: Box<[Mutex<[Entry; WAYS]>]>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    key: u64,
    /// The key in the store.
    pub(super) store_key: StoreKey,
    pub(super) budget: Budget,
}

impl BudgetTable {
    /// Creates a table with space for at least `keys` keys. A key needs 90 bytes.
    pub(super) fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(WAYS).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    /// Calls `with` with the entry of `key`. Creates the entry if it is missing.
    pub(super) fn with<R>(
        &self,
        key: u64,
        now: u64,
        create: impl FnOnce() -> (StoreKey, Budget),
        with: impl FnOnce(&mut Entry) -> R,
    ) -> R {
        let mut set = self.set(key);
        let found = set.iter().position(|entry| entry.key == key && entry.store_key.is_set());
        let place = found.unwrap_or_else(|| {
            let (store_key, budget) = create();
            let worth = |place: &usize| (set[*place].store_key.is_set(), set[*place].budget.worth(now));
            let place = (0..WAYS).min_by_key(worth).unwrap_or_default();
            set[place] = Entry { key, store_key, budget };
            place
        });
        with(&mut set[place])
    }

    /// Calls `with` with the entry of `key`. Returns `None` if the table has forgotten the key.
    pub(super) fn with_known<R>(&self, key: u64, with: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let mut set = self.set(key);
        set.iter_mut().find(|entry| entry.key == key && entry.store_key.is_set()).map(with)
    }

    /// Returns the number of prepaid tokens of all keys.
    pub(super) fn prepaid(&self) -> u64 {
        let of_set = |set: &Mutex<[Entry; WAYS]>| {
            let set = set.lock().unwrap_or_else(PoisonError::into_inner);
            set.iter().map(|entry| u64::from(entry.budget.prepaid())).sum::<u64>()
        };
        self.sets.iter().map(of_set).sum()
    }

    fn set(&self, key: u64) -> MutexGuard<'_, [Entry; WAYS]> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % self.sets.len();
        self.sets[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of budgets in a set.
const WAYS: usize = 8;
