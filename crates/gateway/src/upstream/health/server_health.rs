//! Health of one server. All workers share this state. The state survives a reload of the config. Times are
//! in milliseconds of the process clock.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::admin_state::{AdminState, AdminStateCell};
use super::ejection::{Ejection, milliseconds};
use super::latency::Latency;
use super::sharing::{CheckOutcome, ForeignChecks};

/// Health of a server: health checks, ejection, admin state, `Retry-After`, slow start and latency.
#[derive(Debug, Default)]
pub(crate) struct ServerHealth {
    pub(crate) latency: Latency,
    pub(crate) ejection: Ejection,
    admin_state: AdminStateCell,
    checked: AtomicU8,
    /// Number of times that health checks found the server down or that the gateway ejected it.
    epoch: AtomicUsize,
    /// End of the pause that the server requested with `Retry-After`.
    retry_after_until: AtomicU64,
    /// Time at which the server became healthy again. 0 if the server was never unavailable.
    healthy_since: AtomicU64,
    /// Takes results of health checks by other gateways. `None` before the first check task.
    foreign_checks: Mutex<Option<Sender<CheckOutcome>>>,
    /// The last change by a health check, an ejection or `Retry-After`.
    health_change: Mutex<Option<StateChange>>,
    /// The last change of the admin state.
    admin_change: Mutex<Option<StateChange>>,
}

/// Time and reason of a change of a server's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateChange {
    /// Time of the change, on the process clock.
    pub at: Duration,
    /// The reason, for operators.
    pub reason: String,
}

/// Result of the health checks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub(crate) enum Checked {
    /// No result yet: the server counts as up.
    #[default]
    NotYet,
    Up,
    Down,
}

impl ServerHealth {
    /// Returns `true` if the health of the server allows requests.
    #[inline]
    pub(crate) fn is_available(&self, now: u64) -> bool {
        self.ejection.is_over(now) && !self.is_down() && self.retry_after_until.load(Ordering::Relaxed) <= now
    }

    /// Returns `true` if health checks have found the server down.
    pub(crate) fn is_down(&self) -> bool {
        self.checked() == Checked::Down
    }

    #[inline]
    pub(crate) fn checked(&self) -> Checked {
        match self.checked.load(Ordering::Relaxed) {
            UP => Checked::Up,
            DOWN => Checked::Down,
            _ => Checked::NotYet,
        }
    }

    pub(crate) fn set_checked(&self, checked: Checked) {
        self.checked.store(checked as u8, Ordering::Relaxed);
    }

    /// Records the result of health checks. If the checks have found the server up, also ends its ejection.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.set_checked(if is_down { Checked::Down } else { Checked::Up });
        if is_down {
            self.begin_epoch();
        } else {
            self.ejection.end();
        }
    }

    /// Returns the receiver of check results from other gateways. An earlier receiver gets no further results.
    pub(crate) fn take_over_checks(&self) -> ForeignChecks {
        let (sender, checks) = ForeignChecks::new();
        *lock(&self.foreign_checks) = Some(sender);
        checks
    }

    /// Passes the check result of another gateway to the check task. Drops the result if there is no such task,
    /// or if too many results wait.
    pub(crate) fn receive_check(&self, outcome: CheckOutcome) {
        if let Some(sender) = &*lock(&self.foreign_checks) {
            let _ = sender.try_send(outcome);
        }
    }

    #[inline]
    pub(crate) fn admin_state(&self) -> AdminState {
        self.admin_state.get()
    }

    pub(crate) fn set_admin_state(&self, state: AdminState) {
        self.admin_state.set(state);
    }

    /// Stores the reason of the last change by a health check, an ejection or `Retry-After`. `now` is the time
    /// of the change in milliseconds.
    pub(crate) fn note_health_change(&self, now: u64, reason: String) {
        note(&self.health_change, now, reason);
    }

    /// Stores the reason of the last change of the admin state.
    pub(crate) fn note_admin_change(&self, now: u64, reason: String) {
        note(&self.admin_change, now, reason);
    }

    /// Copies the reason of the last change of the admin state from `other`.
    pub(crate) fn keep_admin_change_of(&self, other: &Self) {
        let change = lock(&other.admin_change).clone();
        *lock(&self.admin_change) = change;
    }

    /// Returns the change that explains the current state: the change of the admin state if the server is
    /// not enabled, otherwise the newest change.
    pub(crate) fn last_change(&self) -> Option<StateChange> {
        let (health, admin) = (lock(&self.health_change).clone(), lock(&self.admin_change).clone());
        if self.admin_state() == AdminState::Enabled {
            health.into_iter().chain(admin).max_by_key(|change| change.at)
        } else {
            admin
        }
    }

    /// Returns the number of the current health epoch. An epoch ends when the server goes down or is ejected.
    /// A connection from an earlier epoch may no longer work.
    pub(crate) fn epoch(&self) -> usize {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the server unavailable for the duration `time`, which the server has requested with
    /// `Retry-After`.
    pub(crate) fn set_retry_after(&self, time: Duration, now: u64) {
        let time = time.min(WAIT_MAX);
        let before = self.retry_after_until.swap(now + milliseconds(time), Ordering::Relaxed);
        if before <= now {
            self.note_health_change(now, format!("the server requested a pause of {} s", time.as_secs()));
        }
    }

    /// Records that the server is healthy again. Starts the slow start, if configured.
    pub(crate) fn end_ejection(&self, now: u64) {
        self.healthy_since.store(now.max(1), Ordering::Relaxed);
    }

    /// Returns the time at which the server became healthy again, or 0 if it was never unavailable.
    pub(crate) fn healthy_since(&self) -> u64 {
        self.healthy_since.load(Ordering::Relaxed)
    }

    /// Returns the share of its normal traffic that the server gets during its slow start, in percent.
    /// `slow_start` is the duration of a slow start in milliseconds. The share is at least a tenth.
    #[inline]
    pub(crate) fn percent_wanted(&self, slow_start: NonZeroU64, now: u64) -> u64 {
        let healthy_since = self.healthy_since();
        if healthy_since == 0 {
            return 100;
        }
        (now.saturating_sub(healthy_since).saturating_mul(100) / slow_start).clamp(10, 100)
    }
}

fn note(place: &Mutex<Option<StateChange>>, now: u64, reason: String) {
    *lock(place) = Some(StateChange { at: Duration::from_millis(now), reason });
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum pause that a server may request.
const WAIT_MAX: Duration = Duration::from_secs(10);

const UP: u8 = Checked::Up as u8;
const DOWN: u8 = Checked::Down as u8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_pauses_a_server_for_a_bounded_time() {
        let health = ServerHealth::default();
        health.set_retry_after(Duration::from_secs(3), 1_000);
        assert!(!health.is_available(3_999));
        assert!(health.is_available(4_000));
        health.set_retry_after(Duration::MAX, 4_000);
        assert!(!health.is_available(13_999));
        assert!(health.is_available(14_000));
    }

    #[test]
    fn admin_change_explains_the_state_until_the_server_is_enabled() {
        let health = ServerHealth::default();
        let reason = || health.last_change().map(|change| change.reason);
        assert_eq!(reason(), None);
        health.note_admin_change(1, "disabled".into());
        health.set_admin_state(AdminState::Disabled);
        health.note_health_change(2, "ejected".into());
        assert_eq!(reason().as_deref(), Some("disabled"));
        health.set_admin_state(AdminState::Enabled);
        assert_eq!(reason().as_deref(), Some("ejected"));
    }

    #[test]
    fn slow_start_share_grows_after_an_ejection() {
        let health = ServerHealth::default();
        let slow_start = NonZeroU64::new(10_000).unwrap();
        assert_eq!(health.percent_wanted(slow_start, 5), 100, "a server that was never down");
        health.end_ejection(20_000);
        let wanted = [20_000, 21_000, 25_000, 29_990, 30_000, 99_000]
            .map(|now| health.percent_wanted(slow_start, now));
        assert_eq!(wanted, [10, 10, 50, 99, 100, 100]);
    }
}
