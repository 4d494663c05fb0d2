//! Ejection: failing servers get no requests for some time.
//!
//! ```text
//!      failures in a row                    its time is over
//! In ──────────────────────▶ Out ────────────────────────────▶ Due: one request tries it
//! ▲                           ▲                                  │
//! │                           └──── it fails: twice as long ─────┤
//! └──────────────────────────────── it succeeds ─────────────────┘
//! ```
//! If no other server is left, ejected servers get requests, too: see `TIERS` in `candidates.rs`. A
//! successful response to such a request ends the ejection of the server. A failure does not extend the
//! ejection.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use thruway_server::StatusCode;

use crate::upstream::health::status_range::StatusRange;

/// Settings for the ejection of failing servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EjectionConfig {
    /// Number of consecutive failures after which a server is ejected. A failure is a failed connection, a
    /// timeout, or an invalid response. Default 5. With 0, no server is ejected.
    pub failures: u32,
    /// Response statuses that also count as failures. Default: no statuses, because a request can also be the
    /// cause of an error status.
    pub statuses: Vec<StatusRange>,
    /// Duration of the first ejection of a server. Each further ejection takes twice as long as the previous
    /// ejection. Default 10 s.
    pub time: Duration,
    /// Maximum duration of an ejection. If a server was healthy for this time, its next ejection takes
    /// [`time`](Self::time) again. Default 1 min.
    pub time_max: Duration,
    /// Maximum percentage of unavailable servers. All unavailable servers count, not only ejected servers.
    /// The gateway rounds the number of servers down. If this number is reached, the gateway ejects no
    /// further server. Even with a low percentage, the gateway may eject one server. It never ejects the last
    /// available server. Default 70.
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
    /// Returns `true` if a response with `status` counts as a failure.
    pub(crate) fn is_failure(&self, status: StatusCode) -> bool {
        self.statuses.iter().any(|range| range.contains(status))
    }

    /// Returns `true` if one more server may be ejected. `out` is the number of unavailable servers, and
    /// `total` is the number of all servers.
    pub(crate) const fn allows_one_more(&self, out: usize, total: usize) -> bool {
        let most = total * self.percent_max as usize / 100;
        let most = if most == 0 { 1 } else { most };
        out < most && out + 1 < total
    }

    /// Returns the duration of an ejection in milliseconds. `times` is 1 for the first ejection, 2 for the
    /// second ejection, and so on.
    fn milliseconds_out(&self, times: u32) -> u64 {
        let factor = 1_u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX);
        milliseconds(self.time).saturating_mul(factor).min(milliseconds(self.time_max))
    }
}

/// Ejection state of one server.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    /// Number of consecutive failures.
    failures: AtomicU32,
    /// Number of ejections in short succession, which determines the duration of the next ejection.
    times: AtomicU32,
    since: AtomicU64,
    /// Time at which a request may test the ejected server. 0 if the server is not ejected.
    until: AtomicU64,
}

/// Decision of a server about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The server accepts the request.
    Usual,
    /// The ejected server accepts the request, and the request tests whether the server works again.
    Trial,
    /// The server refuses the request, because another request tests the server or the server has no
    /// capacity.
    Refused,
}

impl Ejection {
    /// Returns `true` if the server is not ejected, or if a request may test the ejected server.
    #[inline]
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.until.load(Ordering::Relaxed) <= now
    }

    /// Decides whether the server accepts a request. If a test request never reports its result, another
    /// request may test the server after the duration of a first ejection.
    #[inline]
    pub(crate) fn admit(&self, config: &EjectionConfig, now: u64) -> Admission {
        let until = self.until.load(Ordering::Relaxed);
        // An ejected server gets requests only if no other server is left.
        if until == 0 || until > now {
            return Admission::Usual;
        }
        let next = now + config.milliseconds_out(1).max(1);
        match self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Admission::Trial,
            Err(_) => Admission::Refused,
        }
    }

    /// Records a success, which resets the number of consecutive failures.
    #[inline]
    pub(crate) fn succeeded(&self) {
        // The number of failures is usually 0. In this case, a write would slow down other workers for no
        // benefit.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Records a response to a request that began at `began`. Returns `true` if the response ends an
    /// ejection.
    #[inline]
    pub(crate) fn answered(&self, began: u64) -> bool {
        let is_out = self.until.load(Ordering::Relaxed) != 0;
        // If a request began before the ejection, its response does not end the ejection.
        is_out && began >= self.since.load(Ordering::Relaxed) && self.until.swap(0, Ordering::Relaxed) != 0
    }

    /// Returns `true` if the server is ejected.
    pub(crate) fn is_out(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// Makes the next failure eject the server, because another gateway has ejected it. A success before that resets
    /// the number of failures, as always.
    pub(crate) fn expect_failure(&self, config: &EjectionConfig) {
        if !self.is_out() {
            self.failures.fetch_max(config.failures.saturating_sub(1), Ordering::Relaxed);
        }
    }

    /// Ends the ejection.
    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// Records a failure. Returns `true` if the server must be ejected. This is the case after enough
    /// consecutive failures, or if the failed request tested the ejected server.
    pub(crate) fn failed(&self, config: &EjectionConfig, admission: Admission) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let is_in = self.until.load(Ordering::Relaxed) == 0;
        match (is_in, admission) {
            (true, _) => config.failures > 0 && failures >= config.failures,
            (false, Admission::Trial) => true,
            // An ejected server gets requests only if no other server is left.
            (false, _) => false,
        }
    }

    /// Ejects the server. `healthy_since` is the time at which the server last became healthy. Returns the
    /// duration of the ejection in milliseconds. Returns `None` if another request has already ejected the
    /// server.
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

/// Converts `time` to milliseconds.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000).saturating_add(u64::from(time.subsec_millis())).min(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
