//! Keys that need a settlement, in two bounded queues.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::store::{LimitAnswer, LimitOperation};

/// The counters of a policy, as the background task sees them.
pub(in crate::policy) trait SharedCounters: Send + Sync {
    /// Decides about a key in the queue of the tick.
    fn at_tick(&self, key: u64, now: u64) -> AtTick;

    /// Starts the settlement of `key`. Returns `None` if the table has forgotten the key.
    fn begin(&self, key: u64, now: u64) -> Option<LimitOperation>;

    /// Ends the settlement of `key`. Returns `true` if the caller must add the key to the queue of the tick.
    fn finish(&self, key: u64, operation: &LimitOperation, answer: Option<LimitAnswer>, now: u64) -> bool;

    /// Forgets that a queue contains `key`.
    fn abandon(&self, key: u64);

    /// Returns the number of tokens or permits of all keys that the store has granted to this replica.
    fn leased(&self) -> u64;
}

/// Decision about a key at a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::policy) enum AtTick {
    /// The background task settles the key now.
    Settle,
    /// The key stays in the queue.
    Keep,
    /// The key leaves the queue.
    Remove,
}

/// A key of a policy that needs a settlement.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) counters: Arc<dyn SharedCounters>,
    pub(super) key: u64,
}

/// The queues of a process. All methods return at once.
#[derive(Default)]
pub(super) struct SettlementQueue {
    urgent: Mutex<Vec<Job>>,
    open: Mutex<Vec<Job>>,
    wake: Notify,
}

impl SettlementQueue {
    /// Adds a job that runs as soon as possible. Returns `false` if the queue is full.
    pub(super) fn push_urgent(&self, job: Job) -> bool {
        let is_added = push(&self.urgent, job);
        self.wake.notify_one();
        is_added
    }

    /// Adds a job for the next tick. Returns `false` if the queue is full.
    pub(super) fn push_open(&self, job: Job) -> bool {
        push(&self.open, job)
    }

    /// Waits until the queue may contain an urgent job.
    pub(super) async fn urgent(&self) {
        self.wake.notified().await;
    }

    /// Removes at most `max` urgent jobs.
    pub(super) fn take_urgent(&self, max: usize) -> Vec<Job> {
        let mut urgent = lock(&self.urgent);
        let count = urgent.len().min(max);
        let jobs = urgent.drain(..count).collect();
        if !urgent.is_empty() {
            self.wake.notify_one();
        }
        jobs
    }

    /// Puts jobs back that are not due at this tick.
    pub(super) fn keep_open(&self, mut jobs: Vec<Job>) {
        lock(&self.open).append(&mut jobs);
    }

    /// Removes all jobs of the tick.
    pub(super) fn take_open(&self) -> Vec<Job> {
        std::mem::take(&mut *lock(&self.open))
    }
}

fn push(queue: &Mutex<Vec<Job>>, job: Job) -> bool {
    let mut queue = lock(queue);
    let has_capacity = queue.len() < QUEUE_MAX;
    if has_capacity {
        queue.push(job);
    }
    has_capacity
}

fn lock(queue: &Mutex<Vec<Job>>) -> MutexGuard<'_, Vec<Job>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of jobs in a queue. A job takes 24 bytes.
pub(super) const QUEUE_MAX: usize = 65_536;
