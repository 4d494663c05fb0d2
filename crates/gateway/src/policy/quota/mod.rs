//! Quotas: a maximum number of requests in each hour, day or month.

mod counts;
mod window;

use std::fmt;
use std::sync::Arc;

use thruway_server::{Request, StatusCode};

use super::fleet::{LimitCounts, OnStoreFailure, SharedBudgets, SharedLimit, SharedLimits};
use super::key::{CountBy, Keys};
use super::refusal::Refusal;
use super::verdict::Verdict;

pub use window::QuotaPeriod;

use counts::WindowCounts;
use window::Window;

/// Settings of the quota policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaConfig {
    /// Maximum number of requests in each window, at least 1. Refused requests do not count.
    pub requests: u32,
    /// The windows.
    pub per: QuotaPeriod,
    /// The property by which requests are grouped. Each group has a separate quota.
    pub by: CountBy,
    /// Status of the response to a refused request. Default 429.
    pub status: StatusCode,
    /// Maximum number of keys that the policy remembers. Each key needs 25 bytes, and 115 bytes if the quota is
    /// shared. Default [`KEYS_MAX`](Self::KEYS_MAX).
    pub keys_max: usize,
    /// If set, the quota holds for all replicas of a fleet together, with a policy of
    /// [`Policy::with_shared_limits`](crate::Policy::with_shared_limits). Default `None`.
    pub shared: Option<SharedLimit>,
}

pub(super) struct Quota {
    keys: Keys,
    config: QuotaConfig,
    /// The counts of this process. With a shared quota, the counts while the store fails.
    counts: WindowCounts,
    shared: Option<SharedQuota>,
}

/// The part of a quota that all replicas share.
struct SharedQuota {
    budgets: SharedBudgets,
    on_store_failure: OnStoreFailure,
    counts: Arc<LimitCounts>,
}

impl QuotaConfig {
    /// Default maximum number of remembered keys. They need 1.6 MiB.
    pub const KEYS_MAX: usize = 65_536;

    /// Returns settings that allow `requests` requests in each window for each user.
    pub const fn of_user(requests: u32, per: QuotaPeriod) -> Self {
        Self {
            requests,
            per,
            by: CountBy::User,
            status: StatusCode::TOO_MANY_REQUESTS,
            keys_max: Self::KEYS_MAX,
            shared: None,
        }
    }
}

impl Quota {
    pub(super) fn new(policy: &Arc<str>, config: QuotaConfig, limits: Option<&SharedLimits>) -> Self {
        let keys_max = if config.by == CountBy::All { 1 } else { config.keys_max };
        let shared = config.shared.zip(limits).map(|(shared, limits)| {
            let budgets = SharedBudgets::of_quota(policy.clone(), config.requests, keys_max, limits.clone());
            let on_store_failure = shared.on_store_failure;
            let counts = limits.register(policy, "quota", on_store_failure, budgets.counters());
            SharedQuota { budgets, on_store_failure, counts }
        });
        Self { keys: Keys::new(config.by.clone()), counts: WindowCounts::new(keys_max), shared, config }
    }

    pub(super) fn decide(&self, request: &Request<'_>, route: &str) -> Verdict<'static> {
        let QuotaConfig { requests, per, status, .. } = self.config;
        let clock = request.worker().clock();
        let time = clock.time_of_day();
        let window = per.window(time);
        let key = self.keys.key(request, route);
        let is_within = match &self.shared {
            None => self.counts.add(key, window.start, requests),
            Some(SharedQuota { budgets, on_store_failure, counts }) => {
                let limits = budgets.limits();
                let is_store_available = limits.is_store_available();
                let is_within = if is_store_available {
                    let store_key = || self.keys.store_key(request, route, limits.keys());
                    let now = u64::try_from(clock.now_exact().as_nanos()).unwrap_or(u64::MAX);
                    budgets.take(key, window.start, now, store_key).is_ok()
                } else {
                    self.is_within_alone(key, window, *on_store_failure, limits)
                };
                counts.add(is_within, is_store_available);
                if !is_store_available && *on_store_failure == OnStoreFailure::Deny {
                    return Verdict::Refuse(Refusal::NoStore);
                }
                is_within
            }
        };
        if is_within {
            return Verdict::Continue;
        }
        Verdict::Refuse(Refusal::Quota { status, requests, wait: window.time_left(time) })
    }

    /// Decides about a request while the store fails.
    fn is_within_alone(
        &self,
        key: u64,
        window: Window,
        failure: OnStoreFailure,
        limits: &SharedLimits,
    ) -> bool {
        let part = || failure.part_of(self.config.requests, limits.replicas());
        match failure {
            OnStoreFailure::Allow => true,
            OnStoreFailure::Deny => false,
            OnStoreFailure::Local { .. } => self.counts.add(key, window.start, part()),
        }
    }
}

impl fmt::Display for QuotaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests in each {}, by {}", self.requests, self.per, self.by)?;
        self.shared.map_or(Ok(()), |shared| shared.fmt(f))
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota").field("config", &self.config).finish_non_exhaustive()
    }
}
