//! Rate limits for a whole fleet.

use std::sync::Arc;

use thruway_net::{TokenBuckets, TokenRate};
use thruway_server::Request;

use super::{RateLimitConfig, keys_max};
use crate::policy::fleet::{LimitCounts, OnStoreFailure, SharedBudgets, SharedLimit, SharedLimits};
use crate::policy::key::Keys;
use crate::policy::refusal::Refusal;
use crate::policy::verdict::Verdict;

/// A rate limit that holds for all replicas together.
pub(in crate::policy) struct SharedRateLimit {
    keys: Keys,
    budgets: SharedBudgets,
    on_store_failure: OnStoreFailure,
    counts: Arc<LimitCounts>,
    /// The buckets while the store fails.
    local: TokenBuckets,
    config: RateLimitConfig,
}

impl SharedRateLimit {
    pub(in crate::policy) fn new(
        policy: &Arc<str>,
        config: RateLimitConfig,
        shared: SharedLimit,
        limits: SharedLimits,
    ) -> Self {
        let keys_max = keys_max(&config);
        let rate = (config.requests, config.per);
        // Without `local`, the policy needs no buckets while the store fails.
        let is_local = matches!(shared.on_store_failure, OnStoreFailure::Local { .. });
        let on_store_failure = shared.on_store_failure;
        let budgets = SharedBudgets::of_rate(policy.clone(), rate, config.burst, keys_max, limits);
        let counts = budgets.limits().register(policy, "rate_limit", on_store_failure, budgets.counters());
        Self {
            keys: Keys::new(config.by.clone()),
            budgets,
            on_store_failure,
            counts,
            local: TokenBuckets::new(if is_local { keys_max } else { 1 }),
            config,
        }
    }

    pub(in crate::policy) fn decide(&self, request: &Request<'_>, route: &str) -> Verdict<'static> {
        let limits = self.budgets.limits();
        let key = self.keys.key(request, route);
        let now = u64::try_from(request.worker().clock().now_exact().as_nanos()).unwrap_or(u64::MAX);
        let is_store_available = limits.is_store_available();
        let taken = if is_store_available {
            self.budgets.take(key, 0, now, || self.keys.store_key(request, route, limits.keys()))
        } else {
            match self.on_store_failure {
                OnStoreFailure::Allow => Ok(()),
                OnStoreFailure::Deny => {
                    self.counts.add(false, false);
                    return Verdict::Refuse(Refusal::NoStore);
                }
                OnStoreFailure::Local { .. } => self.local.take(key, self.local_rate(limits.replicas()), now),
            }
        };
        self.counts.add(taken.is_ok(), is_store_available);
        let RateLimitConfig { status, burst, .. } = self.config;
        match taken {
            Ok(()) => Verdict::Continue,
            Err(wait) => Verdict::Refuse(Refusal::Rate { status, burst, wait }),
        }
    }

    /// Returns the rate of this replica while the store fails.
    fn local_rate(&self, replicas: u32) -> TokenRate {
        let RateLimitConfig { requests, per, burst, .. } = self.config;
        let part = |limit| self.on_store_failure.part_of(limit, replicas);
        // A small number of requests cannot be divided, but its period can be extended.
        let requests_in_period = u64::from(requests) * u64::from(part(PRECISION)) / u64::from(PRECISION);
        match u32::try_from(requests_in_period) {
            Ok(requests) if requests >= 100 => TokenRate::new(requests, per, part(burst)),
            _ => TokenRate::new(requests, per * PRECISION / part(PRECISION), part(burst)),
        }
    }
}

impl std::fmt::Debug for SharedRateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedRateLimit").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Number of parts into which a limit is divided.
const PRECISION: u32 = 10_000;
