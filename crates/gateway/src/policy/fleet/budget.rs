//! The budget of one key on this replica: tokens that the store has granted, and a credit that is charged later.
//!
//! This type has no clock and sends nothing. Times are nanoseconds since any fixed time.
//!
//! ```text
//! request ─▶ take ─▶ admitted or refused, and perhaps a demand for a settlement
//! background task ─▶ begin ─▶ (spent, wanted) ─▶ store ─▶ (granted, remaining, retry_after) ─▶ finish
//! ```

use super::queue::AtTick;

/// The limit of a key, as the budgets of all replicas see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BudgetRules {
    /// Time in which the shared bucket gains one token. With 0, the bucket gains no tokens, as in a quota.
    pub(super) interval: u64,
    /// Maximum number of tokens in the shared bucket.
    pub(super) capacity: u32,
    /// Maximum time between two settlements of a key in use.
    pub(super) period: u64,
}

/// The tokens of a key that this replica may use before the next settlement.
///
/// Every admitted request is charged to the shared bucket, either before (`prepaid`) or at the next settlement.
/// So the average rate of the fleet is exact, even if the replicas together exceed the limit for a moment.
#[derive(Clone, Copy, Default, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and keep the table small")]
pub(super) struct Budget {
    /// Start of the window to which the budget belongs. Rate limits have only the window 0.
    pub(super) window: u64,
    /// Time of the last answer of the store.
    synced_at: u64,
    /// Time at which the shared bucket has a token. Not after `synced_at` if it has one.
    retry_at: u64,
    /// Requests that were admitted since the last complete settlement.
    used: u32,
    /// Part of `used` that the current settlement charges.
    sent: u32,
    /// Tokens that the store has granted to this replica.
    prepaid: u32,
    /// Tokens that this replica may use without a grant.
    credit: u32,
    /// Requests since the start of the last settlement, including refused requests.
    seen: u32,
    /// `true` after the first answer of the store.
    is_known: bool,
    /// `true` from a demand for an urgent settlement until the end of the settlement.
    is_settling: bool,
    /// `true` if the key is in the queue of the tick.
    is_open: bool,
    /// `true` if a request has used the budget since the last tick.
    is_active: bool,
}

/// The decision about a request, and the work that it causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Admission {
    /// Time until a new request may be admitted. `None` if this request is admitted.
    pub(super) wait: Option<u64>,
    pub(super) demand: Demand,
}

/// Settlement that a request causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Demand {
    None,
    /// The background task looks at the budget at its next tick.
    Later,
    /// The background task settles the budget as soon as possible.
    Now,
}

/// A message to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settlement {
    /// Number of tokens to remove from the shared bucket. If negative, the replica returns tokens.
    pub(super) spent: i64,
    /// Number of tokens that the replica wants to hold until the next settlement.
    pub(super) wanted: u32,
}

/// The answer of the store to a [`Settlement`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settled {
    /// Tokens that this replica holds now.
    pub(super) granted: u32,
    /// Tokens that this replica may use without a grant.
    pub(super) credit: u32,
    /// Time until the shared bucket has a token. 0 if it has one.
    pub(super) retry_after: u64,
}

impl BudgetRules {
    /// Returns the rules of a bucket that gains a token in each `interval` and holds `burst` tokens.
    ///
    /// The bucket must hold the tokens that it gains between two settlements. Otherwise, tokens would be lost. For
    /// this reason, the bucket holds at least the tokens of [`CAPACITY_TIME_MIN`].
    pub(super) fn of_rate(interval: u64, burst: u32) -> Self {
        let interval = interval.max(1);
        let least = u32::try_from(CAPACITY_TIME_MIN / interval).unwrap_or(u32::MAX);
        let capacity = burst.max(least).max(1);
        let period = (interval.saturating_mul(capacity.into()) / 2).clamp(PERIOD_MIN, PERIOD_MAX);
        Self { interval, capacity, period }
    }

    /// Returns the rules of a bucket that holds `requests` tokens and gains no tokens.
    pub(super) fn of_quota(requests: u32) -> Self {
        Self { interval: 0, capacity: requests.max(1), period: PERIOD_MAX }
    }
}

impl BudgetRules {
    /// A settlement is due when this part of the budget is used. Excess requests of a quota cannot be compensated, so a
    /// quota is settled earlier.
    const fn settled_part(&self) -> u32 {
        if self.interval == 0 { 4 } else { 2 }
    }
}

impl Budget {
    /// Returns the budget of a key about which the store has not been asked.
    pub(super) fn unknown(window: u64, credit: u32) -> Self {
        Self { window, credit, ..Self::default() }
    }

    /// Decides about a request. `replicas` is the number of replicas of the fleet.
    pub(super) fn take(&mut self, rules: &BudgetRules, replicas: u32, now: u64) -> Admission {
        self.seen = self.seen.saturating_add(1);
        self.is_active = true;
        let is_admitted = self.used < self.prepaid.saturating_add(self.credit)
            || self.used < self.prepaid.saturating_add(self.credit_at(rules, replicas, now));
        if is_admitted {
            self.used += 1;
        }
        let demand = self.demand(rules, now);
        match demand {
            Demand::None => {}
            Demand::Later => self.is_open = true,
            Demand::Now => self.is_settling = true,
        }
        Admission { wait: (!is_admitted).then(|| self.wait(rules, now)), demand }
    }

    /// Returns the credit at the time `now`. Between two settlements, the credit grows by the share of this
    /// replica, so that a replica without granted tokens can use its share of the limit. After a long time without
    /// a settlement, the credit is an estimate of the shared bucket.
    fn credit_at(&self, rules: &BudgetRules, replicas: u32, now: u64) -> u32 {
        if rules.interval == 0 || !self.is_known {
            return self.credit;
        }
        let has_token = u64::from(self.credit == 0 && now >= self.retry_at);
        let gained = if self.is_stale(now) {
            now.saturating_sub(self.retry_at) / rules.interval + has_token
        } else {
            let start = self.synced_at.max(self.retry_at.saturating_sub(DEBT_TIME_MAX));
            let interval = rules.interval.saturating_mul(replicas.max(1).into());
            (now.saturating_sub(start) / interval).max(has_token)
        };
        let gained = u32::try_from(gained).unwrap_or(u32::MAX);
        self.credit.saturating_add(gained).min(rules.capacity)
    }

    fn demand(&self, rules: &BudgetRules, now: u64) -> Demand {
        if self.is_settling {
            return Demand::None;
        }
        if self.used == 0 && self.prepaid == 0 && now.saturating_add(DEBT_TIME_MAX) < self.retry_at {
            return Demand::None;
        }
        let budget = self.prepaid.saturating_add(self.credit);
        let is_due = !self.is_known
            || self.seen >= SEEN_MAX
            || now.saturating_sub(self.synced_at) >= rules.period
            || (!self.is_starved(rules) && self.used.saturating_mul(rules.settled_part()) >= budget);
        match is_due {
            true => Demand::Now,
            false if self.used > 0 && !self.is_open => Demand::Later,
            false => Demand::None,
        }
    }

    /// Returns `true` if the shared bucket was almost empty at the last settlement. Then an early settlement would
    /// gain few tokens.
    const fn is_starved(&self, rules: &BudgetRules) -> bool {
        rules.interval > 0 && (self.credit == 0 || self.credit < rules.capacity / 4)
    }

    const fn is_stale(&self, now: u64) -> bool {
        now.saturating_sub(self.synced_at) >= STALE_TIME
    }

    fn wait(&self, rules: &BudgetRules, now: u64) -> u64 {
        self.retry_at.saturating_sub(now).max(rules.interval).max(1)
    }

    /// Decides if the background task must settle the budget at this tick: after a time without requests, or if the last
    /// settlement was long ago.
    pub(super) fn at_tick(&mut self, rules: &BudgetRules, now: u64) -> AtTick {
        if self.is_settling {
            return AtTick::Keep;
        }
        if self.used == 0 && self.prepaid == 0 {
            self.is_open = false;
            return AtTick::Remove;
        }
        let was_active = std::mem::take(&mut self.is_active);
        if was_active && now.saturating_sub(self.synced_at) < rules.period {
            return AtTick::Keep;
        }
        (self.is_settling, self.is_open) = (true, false);
        self.is_active = was_active;
        AtTick::Settle
    }

    /// Starts a settlement. [`finish`](Self::finish) or [`fail`](Self::fail) ends it.
    pub(super) fn begin(&mut self, rules: &BudgetRules, now: u64) -> Settlement {
        self.is_settling = true;
        let wanted = if self.is_active { self.expected(rules, now) } else { 0 };
        self.is_active = false;
        self.seen = 0;
        self.sent = self.used;
        Settlement { spent: i64::from(self.used) - i64::from(self.prepaid), wanted }
    }

    /// Returns the number of requests that this replica expects until the next settlement. Returns 0 for a key with
    /// few requests, which uses the credit only.
    fn expected(&self, rules: &BudgetRules, now: u64) -> u32 {
        if self.seen < SEEN_MIN || rules.interval == 0 {
            return 0;
        }
        let age = now.saturating_sub(self.synced_at).max(1_000_000);
        let expected = u64::from(self.seen).saturating_mul(rules.period) / age;
        let max = self.seen.saturating_mul(2).max(SEEN_MAX).min(rules.capacity / 4);
        u32::try_from(expected).unwrap_or(u32::MAX).min(max)
    }

    /// Ends a settlement with the answer of the store. Returns `true` if the key must join the queue of the tick, because
    /// the replica holds tokens, or has used tokens that are not charged yet.
    pub(super) fn finish(&mut self, settled: Settled, now: u64) -> bool {
        self.used = self.used.saturating_sub(self.sent);
        self.sent = 0;
        self.prepaid = settled.granted;
        self.credit = settled.credit;
        self.synced_at = now;
        self.retry_at = now.saturating_add(settled.retry_after);
        self.is_known = true;
        self.is_settling = false;
        let was_open = self.is_open;
        self.is_open |= self.used > 0 || self.prepaid > 0;
        self.is_open && !was_open
    }

    /// Forgets that a queue contains the key of this budget. The next request may demand a settlement again.
    pub(super) const fn forget_demand(&mut self) {
        (self.is_settling, self.is_open, self.sent) = (false, false, 0);
    }

    /// Ends a settlement without an answer. The replica no longer uses the granted tokens, because the store may have
    /// taken them back. The next settlement charges the requests again that were not prepaid.
    pub(super) fn fail(&mut self) {
        self.used = self.used.saturating_sub(self.prepaid);
        (self.prepaid, self.sent) = (0, 0);
        self.is_settling = false;
    }

    /// Returns the number of tokens that the store has granted to this replica.
    pub(super) const fn prepaid(&self) -> u32 {
        self.prepaid
    }

    /// Orders budgets by the harm of forgetting them: unused budgets first, then budgets without debt, then the oldest.
    pub(super) const fn worth(&self, now: u64) -> (bool, bool, u64) {
        let is_in_use = self.is_settling || self.used > 0 || self.prepaid > 0;
        (is_in_use, self.retry_at > now, self.synced_at)
    }
}

/// Number of requests of a key, including refused requests, that cause a settlement.
pub(super) const SEEN_MAX: u32 = 200;
/// A key with fewer requests between two settlements gets no tokens in advance.
const SEEN_MIN: u32 = 4;
const PERIOD_MIN: u64 = 50_000_000;
const PERIOD_MAX: u64 = 500_000_000;
/// Minimum time that an empty shared bucket needs to fill.
const CAPACITY_TIME_MIN: u64 = 250_000_000;
/// If the shared bucket has more debt than it gains in this time, no replica gets a share.
const DEBT_TIME_MAX: u64 = 250_000_000;
/// Age of a settlement from which the budget is an estimate of the shared bucket. A key in use is settled at least
/// twice in this time.
const STALE_TIME: u64 = 1_000_000_000;
