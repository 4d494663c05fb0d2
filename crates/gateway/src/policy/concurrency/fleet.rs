//! Limits of requests in flight for a whole fleet.

use std::fmt;
use std::sync::Arc;

use thruway_server::{Request, StatusCode};

use super::ConcurrencyConfig;
use crate::policy::fleet::{LimitCounts, OnStoreFailure, SharedLimit, SharedLimits, SharedPermits};
use crate::policy::key::Keys;
use crate::policy::refusal::Refusal;
use crate::policy::verdict::Verdict;

/// A limit of requests in flight that holds for all replicas together.
pub(in crate::policy) struct SharedConcurrency {
    keys: Keys,
    status: StatusCode,
    permits: SharedPermits,
    on_store_failure: OnStoreFailure,
    counts: Arc<LimitCounts>,
}

impl SharedConcurrency {
    pub(in crate::policy) fn new(
        policy: &Arc<str>,
        config: ConcurrencyConfig,
        shared: SharedLimit,
        limits: SharedLimits,
    ) -> Self {
        let ConcurrencyConfig { requests_max, by, status, .. } = config;
        let permits = SharedPermits::new(policy.clone(), requests_max.max(1), limits);
        let on_store_failure = shared.on_store_failure;
        let counts = permits.limits().register(policy, "concurrency", on_store_failure, permits.counters());
        Self { keys: Keys::new(by), status, permits, on_store_failure, counts }
    }

    pub(in crate::policy) fn decide(&self, request: &Request<'_>, route: &str) -> Verdict<'static> {
        let limits = self.permits.limits();
        let key = self.keys.key(request, route);
        let store_key = || self.keys.store_key(request, route, limits.keys());
        let is_store_available = limits.is_store_available();
        let permit = if is_store_available {
            let now = u64::try_from(request.worker().clock().now().as_nanos()).unwrap_or(u64::MAX);
            self.permits.enter(key, now, store_key)
        } else {
            self.permits.enter_without_store(key, self.on_store_failure, store_key)
        };
        self.counts.add(permit.is_some(), is_store_available);
        match permit {
            Some(permit) => Verdict::HoldShared(permit),
            None if !is_store_available && self.on_store_failure == OnStoreFailure::Deny => {
                Verdict::Refuse(Refusal::NoStore)
            }
            None => Verdict::Refuse(Refusal::Concurrency(self.status)),
        }
    }
}

impl fmt::Debug for SharedConcurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedConcurrency").field("status", &self.status).finish_non_exhaustive()
    }
}
