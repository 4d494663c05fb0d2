//! State of the dashboard: the history, and the updates for open pages.
//!
//! A background thread takes a sample once per second, whether or not a page is open. It creates the JSON of
//! `/status` once for all open pages, and only while a page is open.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use thruway_net::Clock;
use tokio::sync::watch;

use super::history::{Columns, History};
use super::sampler::{Reading, Sampler, StateWatch};
use super::state::ServiceState;
use super::status;
use super::unread::UnreadResponses;
use crate::running_state::RunningState;

/// The history of a service, and the subscribers of its updates.
pub(super) struct Dashboard {
    service: Arc<ServiceState>,
    history: Mutex<History>,
    latest: watch::Sender<Latest>,
    subscribers: AtomicUsize,
    /// The responses of `/history`, which have several megabytes.
    unread: UnreadResponses,
    /// System time at the start of the process clock, in seconds since 1970.
    epoch: AtomicU64,
}

/// The newest state for open pages. A page that reads too slowly skips older states.
#[derive(Clone, Default)]
struct Latest {
    /// Number of status documents so far.
    number: u64,
    /// The newest JSON document of `/status`.
    status: Arc<str>,
}

/// An open page. Dropping this value ends the subscription.
pub(super) struct Subscriber {
    pub(super) dashboard: Arc<Dashboard>,
    latest: watch::Receiver<Latest>,
    /// Number of the last status document that the subscriber has received.
    number: u64,
    /// Second of the last sample that the subscriber has received.
    last: Option<u64>,
}

/// Decides when the JSON of `/status` is created again. A large config needs more time for its JSON, so the
/// document is created less often.
#[derive(Default)]
struct StatusPace {
    next: Duration,
}

impl StatusPace {
    /// Returns `true` if the document must be created again at the time `now`.
    fn is_due(&self, now: Duration) -> bool {
        self.next <= now
    }

    /// Records that the document was created at the time `now` and needed the time `cost`.
    fn created(&mut self, now: Duration, cost: Duration) {
        self.next = now + cost * STATUS_COST_FACTOR;
    }
}

impl Dashboard {
    pub(super) fn new(service: &Arc<ServiceState>) -> Arc<Self> {
        Arc::new(Self {
            service: service.clone(),
            history: Mutex::new(History::new()),
            latest: watch::Sender::default(),
            subscribers: AtomicUsize::new(0),
            unread: UnreadResponses::default(),
            epoch: AtomicU64::new(0),
        })
    }

    /// Takes a sample at each second until the dashboard is dropped.
    pub(super) fn start(self: &Arc<Self>) {
        let dashboard = Arc::downgrade(self);
        thread::spawn(move || run(&dashboard, &Clock::system()));
    }

    /// Returns the last `seconds` of the history in steps of `step_seconds`.
    pub(super) fn columns(&self, seconds: u64, step_seconds: u64, clock: &Clock) -> Columns {
        let history = self.lock();
        history.columns(history.range(seconds, step_seconds), self.epoch(clock))
    }

    /// Adds a subscriber. Returns `None` if the maximum number of subscribers is reached.
    pub(super) fn subscribe(self: &Arc<Self>) -> Option<Subscriber> {
        let is_below = |count: usize| (count < SUBSCRIBERS_MAX).then_some(count + 1);
        self.subscribers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_below).ok()?;
        let latest = self.latest.subscribe();
        let number = latest.borrow().number;
        Some(Subscriber { dashboard: self.clone(), latest, number, last: None })
    }

    /// Returns the JSON document of `/status`.
    pub(super) fn status(&self) -> Arc<str> {
        status::text(&self.service).into()
    }

    pub(super) const fn unread(&self) -> &UnreadResponses {
        &self.unread
    }

    pub(super) fn running_state(&self) -> &RunningState {
        &self.service.running_state
    }

    fn epoch(&self, clock: &Clock) -> u64 {
        let epoch = epoch_after(self.epoch.load(Ordering::Relaxed), clock);
        self.epoch.store(epoch, Ordering::Relaxed);
        epoch
    }

    /// Wakes the subscribers, with a new status document if one is due.
    fn publish(&self, pace: &mut StatusPace, clock: &Clock) {
        let now = clock.now_exact();
        let status = pace.is_due(now).then(|| self.status());
        if status.is_some() {
            pace.created(now, clock.now_exact().saturating_sub(now));
        }
        self.latest.send_modify(|latest| {
            if let Some(status) = status {
                *latest = Latest { number: latest.number + 1, status };
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber {
    /// Waits for the next second.
    ///
    /// # Errors
    /// Returns an error after the dashboard has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: a canceled call loses no update.
    pub(super) async fn tick(&mut self) -> Result<(), watch::error::RecvError> {
        self.latest.changed().await
    }

    /// Returns the newest status document, unless the subscriber has already received it.
    pub(super) fn new_status(&mut self) -> Option<Arc<str>> {
        let latest = self.latest.borrow_and_update();
        let is_new = std::mem::replace(&mut self.number, latest.number) != latest.number;
        is_new.then(|| latest.status.clone())
    }

    /// Returns the samples since the previous call, but at most the last `seconds_max` samples. Returns
    /// `None` if there are no new samples.
    pub(super) fn new_samples(&mut self, seconds_max: u64, clock: &Clock) -> Option<Columns> {
        let history = self.dashboard.lock();
        let range = history.range_after(self.last, seconds_max);
        self.last = history.newest();
        (range.steps > 0).then(|| history.columns(range, self.dashboard.epoch(clock)))
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.dashboard.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn run(dashboard: &Weak<Dashboard>, clock: &Clock) {
    let (mut sampler, mut watch, mut pace) =
        (Sampler::default(), StateWatch::default(), StatusPace::default());
    loop {
        let Some(strong) = dashboard.upgrade() else { return };
        let service = &strong.service;
        let now = clock.now_exact();
        if let Some(sample) = sampler.sample(now, Reading::of(service)) {
            strong.lock().add(now.as_secs(), &sample);
        }
        watch.note_changes(&service.running_state.load(), &service.changes, clock.time_of_day());
        if strong.latest.receiver_count() > 0 {
            strong.publish(&mut pace, clock);
        }
        // The thread must not keep the dashboard alive while it waits.
        drop(strong);
        thread::sleep(until_next_second(clock.now_exact()));
    }
}

/// Returns the time until the next full second after `now`.
fn until_next_second(now: Duration) -> Duration {
    Duration::from_secs(now.as_secs() + 1).saturating_sub(now)
}

/// Returns the system time at the start of `clock`, in seconds since 1970. Returns `before` if the difference is
/// at most one second: both clocks are read at different times, so the result could alternate.
fn epoch_after(before: u64, clock: &Clock) -> u64 {
    let now = clock.time_of_day().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = now.saturating_sub(clock.now_exact()).as_secs();
    if epoch.abs_diff(before) <= 1 { before } else { epoch }
}

/// Maximum number of open pages. The other connections of the admin listener remain for other requests.
pub(super) const SUBSCRIBERS_MAX: usize = 16;

/// The thread creates the status document at most once per second. Between two documents, it pauses for at least
/// 200 times the time that the document has taken. So the documents need at most 0.5 % of a core.
const STATUS_COST_FACTOR: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_document_costs_at_most_half_a_percent_of_a_core() {
        let (mut pace, second) = (StatusPace::default(), Duration::from_secs(1));
        assert!(pace.is_due(second));
        pace.created(second, Duration::from_millis(1));
        assert!(pace.is_due(2 * second), "a cheap document is created each second");
        pace.created(second, Duration::from_millis(50));
        assert!(!pace.is_due(10 * second) && pace.is_due(11 * second));
    }

    #[test]
    fn start_of_the_clock_changes_only_if_the_system_time_is_set() {
        let clock = Clock::system();
        let epoch = epoch_after(0, &clock);
        assert_eq!(epoch_after(epoch + 1, &clock), epoch + 1);
        assert!(epoch_after(epoch + 60, &clock).abs_diff(epoch) <= 1);
    }

    #[test]
    fn samples_are_taken_at_full_seconds() {
        assert_eq!(until_next_second(Duration::from_millis(5_300)), Duration::from_millis(700));
        assert_eq!(until_next_second(Duration::from_secs(5)), Duration::from_secs(1));
    }
}
