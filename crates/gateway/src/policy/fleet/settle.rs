//! The background task that settles the budgets of this replica with the store.

use std::time::Duration;

use thruway_net::Clock;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::limits::SharedLimits;
use super::queue::{AtTick, Job};
use super::store::{LimitOperation, LimitStore};

impl SharedLimits {
    /// Settles the used tokens with `store`, until the future is dropped. Run this future once for each
    /// `SharedLimits`, in the background.
    ///
    /// The future sends at most one batch of operations at a time, and at most one batch in 10 ms. While the store
    /// fails, it tries again with growing pauses of up to 2 s. The pauses are random, so that the replicas of a fleet
    /// do not return at the same time.
    pub async fn run(&self, store: &impl LimitStore) {
        self.run_with(store, || nanos(Clock::system().now_exact())).await;
    }

    pub(super) async fn run_with(&self, store: &impl LimitStore, now: impl Fn() -> u64 + Send + Sync) {
        let mut next_tick = Instant::now() + TICK;
        loop {
            let start = Instant::now();
            let mut jobs = self.queue().take_urgent(BATCH_MAX);
            if start >= next_tick {
                next_tick = start + TICK;
                jobs.append(&mut self.jobs_of_tick(now()));
            }
            let mut is_answered = true;
            while !jobs.is_empty() && is_answered {
                let rest = jobs.split_off(jobs.len().min(BATCH_MAX));
                is_answered = self.settle(store, jobs, &now).await;
                jobs = rest;
            }
            for job in &jobs {
                job.counters.abandon(job.key);
            }
            if !is_answered {
                self.wait_for_store(store).await;
            }
            sleep_until(start + GAP).await;
            // The tick is the timeout of this wait.
            let _ = timeout_at(next_tick, self.queue().urgent()).await;
        }
    }

    /// Returns the jobs that are due at this tick.
    fn jobs_of_tick(&self, now: u64) -> Vec<Job> {
        let (mut due, mut later) = (Vec::new(), Vec::new());
        for job in self.queue().take_open() {
            match job.counters.at_tick(job.key, now) {
                AtTick::Settle => due.push(job),
                AtTick::Keep => later.push(job),
                AtTick::Remove => {}
            }
        }
        self.queue().keep_open(later);
        due
    }

    /// Settles `jobs` in one round trip. Returns `false` if the store failed.
    async fn settle(
        &self,
        store: &impl LimitStore,
        jobs: Vec<Job>,
        now: impl Fn() -> u64 + Send + Sync,
    ) -> bool {
        let time = now();
        let begin = |job: Job| job.counters.begin(job.key, time).map(|operation| (job, operation));
        let (jobs, operations): (Vec<_>, Vec<_>) = jobs.into_iter().filter_map(begin).unzip();
        if jobs.is_empty() {
            return true;
        }
        let mut answers = store.apply(operations.clone()).await;
        answers.resize(jobs.len(), None);
        let failures = answers.iter().filter(|answer| answer.is_none()).count();
        self.count_round_trip(jobs.len(), failures);
        let now = now();
        for ((job, operation), answer) in jobs.into_iter().zip(&operations).zip(answers) {
            let is_open = job.counters.finish(job.key, operation, answer, now);
            let (counters, key) = (job.counters.clone(), job.key);
            if is_open && !self.queue().push_open(job) {
                counters.abandon(key);
            }
        }
        failures == 0
    }

    /// Waits until the store answers again. Until then, the policies apply their failure policies.
    async fn wait_for_store(&self, store: &impl LimitStore) {
        self.set_store_available(false);
        tracing::warn!("the store of shared limits fails: each policy applies its `on_store_failure`");
        let mut pause = PAUSE_MIN;
        loop {
            self.abandon_all();
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let answers = store.apply(vec![probe()]).await;
            let is_answered = answers.first().is_some_and(Option::is_some);
            self.count_round_trip(1, usize::from(!is_answered));
            if is_answered {
                break;
            }
        }
        self.set_store_available(true);
        tracing::info!("the store of shared limits works again");
    }

    fn abandon_all(&self) {
        let (urgent, open) = (self.queue().take_urgent(usize::MAX), self.queue().take_open());
        for job in urgent.iter().chain(&open) {
            job.counters.abandon(job.key);
        }
    }
}

/// Returns an operation that writes, because a store without free memory answers only operations that read.
fn probe() -> LimitOperation {
    let (name, per) = ("probe".to_owned(), Duration::from_secs(1));
    LimitOperation::Tokens { name, requests: 1, per, capacity: 10, spent: 0, wanted: 1 }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Time between two looks at keys without urgent demand.
const TICK: Duration = Duration::from_millis(250);
/// Minimum time between the starts of two batches.
const GAP: Duration = Duration::from_millis(10);
/// Maximum number of operations in a round trip.
const BATCH_MAX: usize = 512;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
