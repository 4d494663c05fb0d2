//! Rate limits and quotas for the whole fleet.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::budget::{Admission, Budget, BudgetRules, Demand, Settled, Settlement};
use super::limits::SharedLimits;
use super::queue::{AtTick, SharedCounters};
use super::store::{LimitAnswer, LimitOperation};
use super::table::BudgetTable;
use crate::policy::key::StoreKey;

/// The budgets of a policy on this replica.
pub(crate) struct SharedBudgets(Arc<Budgets>);

struct Budgets {
    /// Name of the policy.
    policy: Arc<str>,
    /// The requests in each period. `None` for a quota.
    rate: Option<(u32, Duration)>,
    rules: BudgetRules,
    table: BudgetTable,
    limits: SharedLimits,
}

impl SharedBudgets {
    /// Creates the budgets of a rate limit of `requests` requests in each period `per`, and bursts of `burst` requests.
    pub(crate) fn of_rate(
        policy: Arc<str>,
        (requests, per): (u32, Duration),
        burst: u32,
        keys: usize,
        limits: SharedLimits,
    ) -> Self {
        let interval = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX) / u64::from(requests.max(1));
        let rules = BudgetRules::of_rate(interval, burst);
        Self::new(Budgets {
            policy,
            rate: Some((requests.max(1), per)),
            rules,
            table: BudgetTable::new(keys),
            limits,
        })
    }

    /// Creates the budgets of a quota of `requests` requests in each window.
    pub(crate) fn of_quota(policy: Arc<str>, requests: u32, keys: usize, limits: SharedLimits) -> Self {
        let rules = BudgetRules::of_quota(requests);
        Self::new(Budgets { policy, rate: None, rules, table: BudgetTable::new(keys), limits })
    }

    fn new(budgets: Budgets) -> Self {
        budgets.limits.use_now();
        Self(Arc::new(budgets))
    }

    /// Decides about a request in the window `window` of a quota, or in the window 0 of a rate limit.
    ///
    /// # Errors
    /// The limit is reached. Returns the time until a new request may be admitted.
    pub(crate) fn take(
        &self,
        key: u64,
        window: u64,
        now: u64,
        store_key: impl FnOnce() -> StoreKey,
    ) -> Result<(), Duration> {
        let Budgets { rules, table, limits, .. } = &*self.0;
        let replicas = limits.replicas();
        let new = || Budget::unknown(window, self.0.credit_of(rules.capacity));
        let Admission { wait, .. } = table.with(
            key,
            now,
            || (store_key(), new()),
            |entry| {
                if entry.budget.window != window {
                    entry.budget = new();
                }
                let admission = entry.budget.take(rules, replicas, now);
                let is_queued = match admission.demand {
                    Demand::None => true,
                    Demand::Later => limits.push_open(&self.0, key),
                    Demand::Now => limits.push_urgent(&self.0, key),
                };
                if !is_queued {
                    entry.budget.forget_demand();
                }
                admission
            },
        );
        wait.map_or(Ok(()), |wait| Err(Duration::from_nanos(wait)))
    }

    /// Returns the counters for the status.
    pub(in crate::policy) fn counters(&self) -> Weak<dyn SharedCounters> {
        // The type of the result needs this intermediate step.
        let counters: Weak<Budgets> = Arc::downgrade(&self.0);
        counters
    }

    /// Returns the common part of the process.
    pub(crate) fn limits(&self) -> &SharedLimits {
        &self.0.limits
    }
}

impl Budgets {
    /// Returns the number of tokens that this replica may use without a grant, if the shared bucket has `remaining`
    /// tokens. A quota gains no tokens that could compensate for excess requests, so each replica gets its share.
    fn credit_of(&self, remaining: u32) -> u32 {
        if self.is_quota() { remaining.div_ceil(self.limits.replicas().max(1)) } else { remaining }
    }

    const fn is_quota(&self) -> bool {
        self.rate.is_none()
    }

    fn name(&self, store_key: StoreKey, window: u64) -> String {
        let name = store_key.name(&self.policy);
        if self.is_quota() { format!("{name}:{window}") } else { name }
    }

    fn operation(&self, name: String, settlement: Settlement) -> LimitOperation {
        let Settlement { spent, wanted } = settlement;
        let Some((requests, per)) = self.rate else {
            let amount = u64::try_from(spent).unwrap_or_default();
            return LimitOperation::Count { name, amount, ttl: QUOTA_TTL };
        };
        LimitOperation::Tokens { name, requests, per, capacity: self.rules.capacity, spent, wanted }
    }

    fn settled(&self, answer: LimitAnswer) -> Option<Settled> {
        match answer {
            LimitAnswer::Tokens { granted, remaining, retry_after } => {
                let retry_after = u64::try_from(retry_after.as_nanos()).unwrap_or(u64::MAX);
                Some(Settled { granted, credit: self.credit_of(remaining), retry_after })
            }
            LimitAnswer::Count(total) => {
                let total = u32::try_from(total).unwrap_or(u32::MAX);
                let remaining = self.rules.capacity.saturating_sub(total);
                // The budget is replaced at the end of the window.
                let retry_after = if remaining == 0 { u64::MAX } else { 0 };
                Some(Settled { granted: 0, credit: self.credit_of(remaining), retry_after })
            }
            LimitAnswer::Permits { .. } | LimitAnswer::Rejected => None,
        }
    }
}

impl SharedCounters for Budgets {
    fn at_tick(&self, key: u64, now: u64) -> AtTick {
        self.table.with_known(key, |entry| entry.budget.at_tick(&self.rules, now)).unwrap_or(AtTick::Remove)
    }

    fn begin(&self, key: u64, now: u64) -> Option<LimitOperation> {
        self.table.with_known(key, |entry| {
            let name = self.name(entry.store_key, entry.budget.window);
            self.operation(name, entry.budget.begin(&self.rules, now))
        })
    }

    fn finish(&self, key: u64, operation: &LimitOperation, answer: Option<LimitAnswer>, now: u64) -> bool {
        let settled = answer.and_then(|answer| self.settled(answer));
        let finish = |budget: &mut Budget| {
            if let Some(settled) = settled {
                return budget.finish(settled, now);
            }
            budget.fail();
            false
        };
        let is_open = self.table.with_known(key, |entry| {
            let name = self.name(entry.store_key, entry.budget.window);
            // A new window of a quota has its own budget, to which the answer does not apply.
            operation.name() == name && finish(&mut entry.budget)
        });
        is_open.unwrap_or(false)
    }

    fn abandon(&self, key: u64) {
        self.table.with_known(key, |entry| entry.budget.forget_demand());
    }

    fn leased(&self) -> u64 {
        self.table.prepaid()
    }
}

/// Time after which the store forgets the counter of a quota. The longest window has 31 days.
const QUOTA_TTL: Duration = Duration::from_hours(32 * 24);
