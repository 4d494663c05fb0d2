//! The part of a process that all shared limits have in common.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::counts::{LimitCounts, LimitTable, SharedLimitStatus};
use super::queue::{Job, SettlementQueue, SharedCounters};
use super::store::OnStoreFailure;
use crate::policy::key::StoreKeys;

/// Connects the shared limits of a gateway to their store. All clones are equal.
///
/// Requests only use tokens that are in memory, and never wait for the store. A task of the program runs
/// [`run`](Self::run), which settles the used tokens with the store and gets new ones.
#[derive(Clone)]
pub struct SharedLimits(Arc<Common>);

/// Number of messages to the store, and of failures.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SharedLimitCounts {
    /// Number of round trips to the store.
    pub round_trips: u64,
    /// Number of operations in these round trips.
    pub operations: u64,
    /// Number of operations without an answer.
    pub failures: u64,
}

struct Common {
    keys: StoreKeys,
    queue: SettlementQueue,
    table: LimitTable,
    replicas: AtomicU32,
    is_store_down: AtomicBool,
    /// Wakes the background task when the first policy uses the limits.
    first_use: Notify,
    round_trips: AtomicU64,
    operations: AtomicU64,
    failures: AtomicU64,
}

impl SharedLimits {
    /// Creates the common part of a process. All replicas of a fleet need the same `secret`. Names in the store
    /// contain hashes with this secret, so that the store does not reveal addresses, header values or user names.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(Arc::new(Common {
            keys: StoreKeys::new(secret),
            queue: SettlementQueue::default(),
            table: LimitTable::default(),
            replicas: AtomicU32::new(1),
            is_store_down: AtomicBool::new(false),
            first_use: Notify::new(),
            round_trips: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }))
    }

    /// Sets the number of replicas in the fleet, including this one. Default 1.
    pub fn set_replicas(&self, replicas: NonZeroU32) {
        self.0.replicas.store(replicas.get(), Ordering::Relaxed);
    }

    /// Returns the number of replicas in the fleet.
    pub fn replicas(&self) -> u32 {
        self.0.replicas.load(Ordering::Relaxed)
    }

    /// Waits until a policy uses the limits. Only one task may wait.
    pub async fn used(&self) {
        self.0.first_use.notified().await;
    }

    /// Notes that a policy uses the limits.
    pub(super) fn use_now(&self) {
        self.0.first_use.notify_one();
    }

    /// Returns `true` if the last message to the store had an answer. Otherwise, each policy applies its
    /// [failure policy](crate::OnStoreFailure).
    pub fn is_store_available(&self) -> bool {
        !self.0.is_store_down.load(Ordering::Relaxed)
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> SharedLimitCounts {
        SharedLimitCounts {
            round_trips: self.0.round_trips.load(Ordering::Relaxed),
            operations: self.0.operations.load(Ordering::Relaxed),
            failures: self.0.failures.load(Ordering::Relaxed),
        }
    }

    /// Returns the state of each policy, in the order of the names.
    pub fn statuses(&self) -> Vec<SharedLimitStatus> {
        self.0.table.statuses()
    }

    /// Adds a policy to the status. Returns its counts.
    pub(in crate::policy) fn register(
        &self,
        policy: &Arc<str>,
        kind: &'static str,
        on_store_failure: OnStoreFailure,
        counters: Weak<dyn SharedCounters>,
    ) -> Arc<LimitCounts> {
        self.0.table.add(policy, kind, on_store_failure, counters)
    }

    pub(super) fn set_store_available(&self, is_available: bool) {
        self.0.is_store_down.store(!is_available, Ordering::Relaxed);
    }

    pub(super) fn count_round_trip(&self, operations: usize, failures: usize) {
        self.0.round_trips.fetch_add(1, Ordering::Relaxed);
        self.0.operations.fetch_add(operations as u64, Ordering::Relaxed);
        self.0.failures.fetch_add(failures as u64, Ordering::Relaxed);
    }

    pub(in crate::policy) fn keys(&self) -> &StoreKeys {
        &self.0.keys
    }

    pub(super) fn queue(&self) -> &SettlementQueue {
        &self.0.queue
    }

    pub(super) fn push_urgent<C: SharedCounters + 'static>(&self, counters: &Arc<C>, key: u64) -> bool {
        self.0.queue.push_urgent(Job { counters: counters.clone(), key })
    }

    pub(super) fn push_open<C: SharedCounters + 'static>(&self, counters: &Arc<C>, key: u64) -> bool {
        self.0.queue.push_open(Job { counters: counters.clone(), key })
    }
}

impl fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_store_available = self.is_store_available();
        let replicas = self.replicas();
        f.debug_struct("SharedLimits")
            .field("replicas", &replicas)
            .field("is_store_available", &is_store_available)
            .finish_non_exhaustive()
    }
}
