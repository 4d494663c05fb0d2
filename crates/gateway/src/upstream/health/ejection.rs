//! Ejection: failing servers get no requests for some time.
//!
//! ```text
//!      failures in a row                    its time is over
//! In ──────────────────────▶ Out ────────────────────────────▶ Due: one request tries it
//! ▲                           ▲                                  │
//! │                           └──── it fails: twice as long ─────┤
//! └──────────────────────────────── it succeeds ─────────────────┘
//! ```
//! If no other server is left, ejected servers get requests, too: see the tiers of `select`. Then each
//! success ends an ejection, and failures do not extend it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use thruway_server::StatusCode;

use crate::upstream::health::status_range::StatusRange;

/// Settings of ejection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EjectionConfig {
    /// Number of consecutive failures before an ejection: no connection, no timely response, or an invalid
    /// one. 0 disables ejection. Default 5.
    pub failures: u32,
    /// Statuses that also count as failures. Default none, because a 500 is caused by the request as often as
    /// by the server.
    pub statuses: Vec<StatusRange>,
    /// Time of the first ejection. Each further one is twice as long. Default 10 s.
    pub time: Duration,
    /// Maximum time of an ejection. A server that was healthy for this time starts again with
    /// [`time`](Self::time). Default 1 min.
    pub time_max: Duration,
    /// Maximum percentage of unavailable servers, for any reason; at least one may be ejected, and never all.
    /// Default 70.
    pub percent_max: u32,
}

impl Default for EjectionConfig {
    fn default() -> Self {
        Self {
            failures: 5,
            statuses: Vec::new(),
            time: Duration::from_secs(10),
            time_max: Duration::from_mins(1),
            percent_max: 70,
        }
    }
}

impl EjectionConfig {
    /// Returns `true` if a response with `status` is a failure.
    pub(crate) fn is_failure(&self, status: StatusCode) -> bool {
        self.statuses.iter().any(|range| range.contains(status))
    }

    /// Returns `true` if one more server may be ejected when `out` of `total` are unavailable.
    pub(crate) const fn allows_one_more(&self, out: usize, total: usize) -> bool {
        let most = total * self.percent_max as usize / 100;
        let most = if most == 0 { 1 } else { most };
        out < most && out + 1 < total
    }

    /// Returns the duration of the `times`th ejection, from 1, in milliseconds.
    fn milliseconds_out(&self, times: u32) -> u64 {
        let factor = 1_u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX);
        milliseconds(self.time).saturating_mul(factor).min(milliseconds(self.time_max))
    }
}

/// Ejection state of one server.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    /// Consecutive failures.
    failures: AtomicU32,
    /// Number of ejections in short succession.
    times: AtomicU32,
    since: AtomicU64,
    /// Time at which the server may be tested again. 0 if it is not ejected.
    until: AtomicU64,
}

/// Admission of a request at a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// An ordinary request.
    Usual,
    /// The request that tests an ejected server.
    Trial,
    /// Refused: another request tests the server.
    Refused,
}

impl Ejection {
    /// Returns `true` if the server is not ejected, or may be tested.
    #[inline]
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.until.load(Ordering::Relaxed) <= now
    }

    /// Admits a request. If a trial request never reports back, the next one may follow after the time of an
    /// ejection.
    #[inline]
    pub(crate) fn admit(&self, config: &EjectionConfig, now: u64) -> Admission {
        let until = self.until.load(Ordering::Relaxed);
        // An ejected server gets requests only if no other is left.
        if until == 0 || until > now {
            return Admission::Usual;
        }
        let next = now + config.milliseconds_out(1).max(1);
        match self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Admission::Trial,
            Err(_) => Admission::Refused,
        }
    }

    /// Records a success. It ends a sequence of failures.
    #[inline]
    pub(crate) fn succeeded(&self) {
        // Usually there is nothing to write, and a write would slow down other workers.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Records a response to a request that started at `began`. Returns `true` if it ends an ejection.
    #[inline]
    pub(crate) fn answered(&self, began: u64) -> bool {
        let is_out = self.until.load(Ordering::Relaxed) != 0;
        // A request from before the ejection does not end it.
        is_out && began >= self.since.load(Ordering::Relaxed) && self.until.swap(0, Ordering::Relaxed) != 0
    }

    /// Ends the ejection.
    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// Records a failure. Returns `true` if it ejects the server: there were enough failures in a row, or
    /// this was the test request.
    pub(crate) fn failed(&self, config: &EjectionConfig, admission: Admission) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let is_in = self.until.load(Ordering::Relaxed) == 0;
        match (is_in, admission) {
            (true, _) => config.failures > 0 && failures >= config.failures,
            (false, Admission::Trial) => true,
            // An ejected server gets requests only if no other is left.
            (false, _) => false,
        }
    }

    /// Ejects the server, which has been up since `healthy_since`. Returns the time in milliseconds. `None` if
    /// another request has already ejected it.
    pub(crate) fn eject(
        &self,
        config: &EjectionConfig,
        admission: Admission,
        healthy_since: u64,
        now: u64,
    ) -> Option<u64> {
        let before = self.until.load(Ordering::Relaxed);
        if before != 0 && admission != Admission::Trial {
            return None;
        }
        let has_been_in = before == 0 && now.saturating_sub(healthy_since) > milliseconds(config.time_max);
        let times = if has_been_in { 1 } else { self.times.load(Ordering::Relaxed).saturating_add(1) };
        let out = config.milliseconds_out(times);
        self.until.compare_exchange(before, now + out.max(1), Ordering::Relaxed, Ordering::Relaxed).ok()?;
        self.times.store(times, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        Some(out)
    }
}

/// Converts to milliseconds.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000).saturating_add(u64::from(time.subsec_millis())).min(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
