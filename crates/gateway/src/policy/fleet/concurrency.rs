//! Limits of requests in flight for the whole fleet.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::budget::Demand;
use super::limits::SharedLimits;
use super::permits::{PERMIT_TTL, Permits};
use super::queue::{AtTick, SharedCounters};
use super::store::{LimitAnswer, LimitOperation, OnStoreFailure};
use crate::policy::key::StoreKey;

/// The permits of a policy on this replica.
pub(crate) struct SharedPermits(Arc<PermitTable>);

/// A permit for one request in flight. Dropping the permit ends the request.
pub(crate) struct SharedPermit {
    table: Arc<PermitTable>,
    key: u64,
}

struct PermitTable {
    /// Name of the policy.
    policy: Arc<str>,
    requests_max: u32,
    limits: SharedLimits,
    /// Keys with requests in flight or with permits.
    shards: [Mutex<Shard>; SHARDS],
}

type Shard = HashMap<u64, (StoreKey, Permits)>;

impl SharedPermits {
    pub(crate) fn new(policy: Arc<str>, requests_max: u32, limits: SharedLimits) -> Self {
        limits.use_now();
        Self(Arc::new(PermitTable { policy, requests_max, limits, shards: Default::default() }))
    }

    /// Returns the counters for the status.
    pub(in crate::policy) fn counters(&self) -> Weak<dyn SharedCounters> {
        // The type of the result needs this intermediate step.
        let counters: Weak<PermitTable> = Arc::downgrade(&self.0);
        counters
    }

    /// Returns the common part of the process.
    pub(crate) fn limits(&self) -> &SharedLimits {
        &self.0.limits
    }

    /// Counts one more request. Returns `None` if the limit is reached.
    pub(crate) fn enter(
        &self,
        key: u64,
        now: u64,
        store_key: impl FnOnce() -> StoreKey,
    ) -> Option<SharedPermit> {
        let PermitTable { requests_max, limits, .. } = &*self.0;
        let part = requests_max.div_ceil(limits.replicas().max(1));
        let mut shard = self.0.shard(key);
        let (_, permits) = shard.entry(key).or_insert_with(|| (store_key(), Permits::default()));
        let (is_admitted, demand) = permits.enter(*requests_max, part, now);
        let is_queued = match demand {
            Demand::None => true,
            Demand::Later => limits.push_open(&self.0, key),
            Demand::Now => limits.push_urgent(&self.0, key),
        };
        if !is_queued {
            permits.forget_demand();
        }
        let is_unused = permits.is_unused();
        if is_unused {
            shard.remove(&key);
        }
        is_admitted.then(|| SharedPermit { table: self.0.clone(), key })
    }

    /// Counts one more request while the store fails. Returns `None` if the failure policy refuses the request.
    pub(crate) fn enter_without_store(
        &self,
        key: u64,
        on_store_failure: OnStoreFailure,
        store_key: impl FnOnce() -> StoreKey,
    ) -> Option<SharedPermit> {
        let max = match on_store_failure {
            OnStoreFailure::Allow => u32::MAX,
            OnStoreFailure::Deny => 0,
            OnStoreFailure::Local { .. } => {
                on_store_failure.part_of(self.0.requests_max, self.0.limits.replicas())
            }
        };
        let mut shard = self.0.shard(key);
        let in_flight = shard.get(&key).map_or(0, |(_, permits)| permits.in_flight());
        let is_admitted = in_flight < max;
        // A refused request must not add its key to the table, because nothing would remove the key.
        if is_admitted {
            shard.entry(key).or_insert_with(|| (store_key(), Permits::default())).1.add();
        }
        is_admitted.then(|| SharedPermit { table: self.0.clone(), key })
    }
}

impl SharedPermits {
    /// Returns the number of keys in memory.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }
}

impl PermitTable {
    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        let place = usize::try_from(key >> 32).unwrap_or_default() % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `with` with the permits of `key`, and then forgets the key if it is not in use.
    fn with<R>(&self, key: u64, with: impl FnOnce(StoreKey, &mut Permits) -> R) -> Option<R> {
        let mut shard = self.shard(key);
        let Entry::Occupied(mut entry) = shard.entry(key) else { return None };
        let (store_key, permits) = entry.get_mut();
        let result = with(*store_key, permits);
        if permits.is_unused() {
            entry.remove();
        }
        Some(result)
    }
}

impl SharedCounters for PermitTable {
    fn at_tick(&self, key: u64, now: u64) -> AtTick {
        self.with(key, |_, permits| permits.at_tick(now)).unwrap_or(AtTick::Remove)
    }

    fn begin(&self, key: u64, _now: u64) -> Option<LimitOperation> {
        let max = self.requests_max;
        let share = max.div_ceil(self.limits.replicas().max(1));
        self.with(key, |store_key, permits| LimitOperation::Permits {
            name: store_key.name(&self.policy),
            wanted: permits.begin(max, share),
            max,
            ttl: Duration::from_nanos(PERMIT_TTL),
        })
    }

    fn finish(&self, key: u64, _: &LimitOperation, answer: Option<LimitAnswer>, now: u64) -> bool {
        let is_open = self.with(key, |_, permits| {
            if let Some(LimitAnswer::Permits { granted, is_full }) = answer {
                return permits.finish(granted, is_full, now);
            }
            permits.forget_demand();
            false
        });
        is_open.unwrap_or(false)
    }

    fn abandon(&self, key: u64) {
        self.with(key, |_, permits| permits.forget_demand());
    }

    fn leased(&self) -> u64 {
        let of_shard = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().map(|(_, permits)| u64::from(permits.granted())).sum::<u64>()
        };
        self.shards.iter().map(of_shard).sum()
    }
}

impl Drop for SharedPermit {
    fn drop(&mut self) {
        self.table.with(self.key, |_, permits| permits.leave());
    }
}

const SHARDS: usize = 32;
