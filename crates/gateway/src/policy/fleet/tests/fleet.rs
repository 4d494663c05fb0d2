//! A store in memory with a delay, and replicas that use it.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::super::settle::nanos;
use super::super::{LimitAnswer, LimitOperation, LimitStore, SharedBudgets, SharedLimits, SharedPermits};
use crate::policy::key::StoreKey;

/// A store with the semantics of [`LimitOperation`].
#[derive(Clone)]
pub(super) struct FakeStore {
    state: Arc<Mutex<FakeState>>,
    replica: usize,
    start: Instant,
}

#[derive(Default)]
struct FakeState {
    /// Tokens, and the time of their last change.
    buckets: HashMap<String, (f64, f64)>,
    counters: HashMap<String, u64>,
    /// Permits of each replica, and the time when they expire.
    permits: HashMap<String, BTreeMap<usize, (u32, f64)>>,
    is_failing: bool,
    random: Option<fastrand::Rng>,
}

/// A replica of the fleet. Dropping it kills the replica.
pub(super) struct Replica {
    pub(super) limits: SharedLimits,
    task: JoinHandle<()>,
    start: Instant,
}

impl FakeStore {
    pub(super) fn new() -> Self {
        let state = FakeState { random: Some(fastrand::Rng::with_seed(7)), ..FakeState::default() };
        Self { state: Arc::new(Mutex::new(state)), replica: 0, start: Instant::now() }
    }

    pub(super) fn set_failing(&self, is_failing: bool) {
        self.state.lock().unwrap().is_failing = is_failing;
    }

    /// Starts `count` replicas.
    pub(super) fn replicas(&self, count: usize) -> Vec<Replica> {
        let replica = |replica| {
            let limits = SharedLimits::new(&[1; 32]);
            limits.set_replicas(NonZeroU32::new(u32::try_from(count).unwrap()).unwrap());
            let (store, running, start) = (Self { replica, ..self.clone() }, limits.clone(), self.start);
            let task = tokio::spawn(async move {
                running.run_with(&store, move || nanos(start.elapsed())).await;
            });
            Replica { limits, task, start }
        };
        (0..count).map(replica).collect()
    }

    fn delay(&self) -> Duration {
        let mut state = self.state.lock().unwrap();
        let random = state.random.as_mut().unwrap();
        Duration::from_micros(random.u64(500..1500))
    }
}

impl LimitStore for FakeStore {
    async fn apply(&self, operations: Vec<LimitOperation>) -> Vec<Option<LimitAnswer>> {
        sleep(self.delay()).await;
        let now = self.start.elapsed().as_secs_f64();
        let answers = {
            let mut state = self.state.lock().unwrap();
            let is_failing = state.is_failing;
            let mut apply = |operation| (!is_failing).then(|| state.apply(operation, self.replica, now));
            operations.into_iter().map(&mut apply).collect()
        };
        sleep(self.delay()).await;
        answers
    }
}

impl FakeState {
    fn apply(&mut self, operation: LimitOperation, replica: usize, now: f64) -> LimitAnswer {
        match operation {
            LimitOperation::Tokens { name, requests, per, capacity, spent, wanted } => {
                let (interval, capacity) = (per.as_secs_f64() / f64::from(requests), f64::from(capacity));
                let (tokens, at) = *self.buckets.entry(name.clone()).or_insert((capacity, now));
                let tokens = (tokens + (now - at) / interval).min(capacity);
                let tokens = (tokens - spent as f64).clamp(-10.0 * capacity, capacity);
                let granted = f64::from(wanted).min(tokens.floor().max(0.0));
                let tokens = tokens - granted;
                self.buckets.insert(name, (tokens, now));
                LimitAnswer::Tokens {
                    granted: granted as u32,
                    remaining: tokens.max(0.0) as u32,
                    retry_after: Duration::from_secs_f64(((1.0 - tokens) * interval).max(0.0)),
                }
            }
            LimitOperation::Count { name, amount, .. } => {
                let count = self.counters.entry(name).or_default();
                *count += amount;
                LimitAnswer::Count(*count)
            }
            LimitOperation::Permits { name, wanted, max, ttl } => {
                let owners = self.permits.entry(name).or_default();
                owners.retain(|owner, (_, expires)| *owner != replica && *expires > now);
                let others: u32 = owners.values().map(|(count, _)| count).sum();
                let granted = wanted.min(max.saturating_sub(others));
                owners.insert(replica, (granted, now + ttl.as_secs_f64()));
                LimitAnswer::Permits { granted, is_full: granted + others >= max }
            }
        }
    }
}

impl Replica {
    /// Creates a shared rate limit with tokens in each `interval`.
    pub(super) fn rate_limit(&self, interval: Duration, burst: u32) -> SharedBudgets {
        SharedBudgets::of_rate("limit".into(), (1, interval), burst, 1024, self.limits.clone())
    }

    pub(super) fn quota(&self, requests: u32) -> SharedBudgets {
        SharedBudgets::of_quota("quota".into(), requests, 1024, self.limits.clone())
    }

    pub(super) fn permits(&self, requests_max: u32) -> SharedPermits {
        SharedPermits::new("permits".into(), requests_max, self.limits.clone())
    }

    pub(super) fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    /// Returns `true` if a request for `key` is admitted.
    pub(super) fn admits(&self, budgets: &SharedBudgets, key: u64, window: u64) -> bool {
        budgets.take(key, window, self.now(), || self.store_key(key)).is_ok()
    }

    pub(super) fn store_key(&self, key: u64) -> StoreKey {
        self.limits.keys().key(b't', [&key.to_be_bytes()[..]].into_iter())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}
