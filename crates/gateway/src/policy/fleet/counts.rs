//! Counts of each shared limit, for operators.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::queue::SharedCounters;
use super::store::OnStoreFailure;

/// State of a shared limit on this replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLimitStatus {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// `rate_limit`, `quota` or `concurrency`.
    pub kind: &'static str,
    /// Behavior while the store fails.
    pub on_store_failure: OnStoreFailure,
    /// Number of tokens or permits that the store has granted to this replica, for all keys together.
    pub leased: u64,
    /// Number of admitted requests.
    pub admitted: u64,
    /// Number of refused requests.
    pub refused: u64,
    /// Number of requests that this replica has admitted or refused while the store failed.
    pub without_store: u64,
}

/// Counts of the decisions of a policy. They last until a config without this policy.
#[derive(Default)]
pub(in crate::policy) struct LimitCounts {
    admitted: AtomicU64,
    refused: AtomicU64,
    without_store: AtomicU64,
}

impl LimitCounts {
    /// Counts a decision.
    pub(in crate::policy) fn add(&self, is_admitted: bool, is_store_available: bool) {
        let count = if is_admitted { &self.admitted } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        if !is_store_available {
            self.without_store.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The shared limits of a process, by the names of their policies.
#[derive(Default)]
pub(super) struct LimitTable(Mutex<BTreeMap<Arc<str>, KnownLimit>>);

struct KnownLimit {
    kind: &'static str,
    on_store_failure: OnStoreFailure,
    counts: Weak<LimitCounts>,
    /// The counters of the policy. During a reload, there are two.
    counters: Vec<Weak<dyn SharedCounters>>,
}

impl LimitTable {
    /// Adds a policy. Returns the counts of the policy with this name in the previous config, or new counts.
    pub(super) fn add(
        &self,
        policy: &Arc<str>,
        kind: &'static str,
        on_store_failure: OnStoreFailure,
        counters: Weak<dyn SharedCounters>,
    ) -> Arc<LimitCounts> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, known| known.counts.strong_count() > 0);
        let before = table.remove(policy);
        let kept =
            before.as_ref().filter(|known| known.kind == kind).and_then(|known| known.counts.upgrade());
        let counts = kept.unwrap_or_default();
        let mut all = before.map(|known| known.counters).unwrap_or_default();
        all.retain(|counters| counters.strong_count() > 0);
        all.push(counters);
        let known = KnownLimit { kind, on_store_failure, counts: Arc::downgrade(&counts), counters: all };
        table.insert(policy.clone(), known);
        counts
    }

    /// Returns the state of each policy, in the order of the names.
    pub(super) fn statuses(&self) -> Vec<SharedLimitStatus> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |(policy, known): (&Arc<str>, &KnownLimit)| {
            let counts = known.counts.upgrade()?;
            let counters = known.counters.iter().filter_map(Weak::upgrade);
            Some(SharedLimitStatus {
                policy: policy.clone(),
                kind: known.kind,
                on_store_failure: known.on_store_failure,
                leased: counters.map(|counters| counters.leased()).sum(),
                admitted: counts.admitted.load(Ordering::Relaxed),
                refused: counts.refused.load(Ordering::Relaxed),
                without_store: counts.without_store.load(Ordering::Relaxed),
            })
        };
        table.iter().filter_map(status).collect()
    }
}
