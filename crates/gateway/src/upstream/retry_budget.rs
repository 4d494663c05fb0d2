//! Limits the number of retries.
//!
//! Retries help if one server fails. If all servers fail, retries do harm, because the servers then get
//! several requests for each client request. The retry budget is a percentage of the requests in the last ten
//! seconds, plus a few retries per second. Finagle and linkerd also limit retries by such a budget.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit for retries at another server. The limit does not apply to a retry after the server has closed
/// an idle connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryBudget {
    /// Maximum number of retries in the last ten seconds, as a percentage of the requests in the same ten
    /// seconds. The ten seconds are a sliding window. Default 20.
    pub percent: u32,
    /// Number of retries per second that are allowed in addition. Default 10.
    pub per_second_min: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: 20, per_second_min: 10 }
    }
}

/// The balance of a retry budget. Each request is a deposit, and each retry is a withdrawal. For each of the
/// last ten seconds, this struct contains the deposits minus the withdrawals, in hundredths of a retry.
#[derive(Debug)]
pub(crate) struct BudgetBalance {
    seconds: [AtomicU64; SECONDS as usize],
}

impl Default for BudgetBalance {
    fn default() -> Self {
        Self { seconds: array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl BudgetBalance {
    /// Counts a request, which increases the budget.
    pub(crate) fn deposit(&self, budget: RetryBudget, now: u64) {
        if budget.percent > 0 {
            self.add(i32::try_from(budget.percent).unwrap_or(i32::MAX), second_of(now));
        }
    }

    /// Takes a retry from the budget. Returns `false` if the budget does not allow another retry.
    pub(crate) fn withdraw(&self, budget: RetryBudget, now: u64) -> bool {
        let second = second_of(now);
        let reserve = i64::from(budget.per_second_min) * i64::from(SECONDS) * i64::from(RETRY);
        let is_enough = self.sum(second) + reserve >= i64::from(RETRY);
        if is_enough {
            self.add(-RETRY, second);
        }
        is_enough
    }

    fn add(&self, amount: i32, second: u32) {
        let step = |packed| {
            let before = balance_in(packed, second).unwrap_or_default();
            Some(pack(second, before.saturating_add(amount)))
        };
        // The closure always returns `Some`, so the update succeeds.
        let _ = self.seconds[(second % SECONDS) as usize].fetch_update(
            Ordering::Relaxed,
            Ordering::Relaxed,
            step,
        );
    }

    fn sum(&self, second: u32) -> i64 {
        let last = (0..SECONDS).map(|n| second.wrapping_sub(n));
        let balances = last.filter_map(|second| {
            balance_in(self.seconds[(second % SECONDS) as usize].load(Ordering::Relaxed), second)
        });
        balances.map(i64::from).sum()
    }
}

/// Packs a second and its balance into one number, so that an atomic operation can replace both.
const fn pack(second: u32, balance: i32) -> u64 {
    (second as u64) << 32 | balance.cast_unsigned() as u64
}

/// Returns the balance in `packed`. Returns `None` if `packed` belongs to another second.
const fn balance_in(packed: u64, second: u32) -> Option<i32> {
    if packed >> 32 == second as u64 { Some(((packed & LOWER) as u32).cast_signed()) } else { None }
}

/// Converts milliseconds to seconds. The result wraps after a hundred years.
const fn second_of(now: u64) -> u32 {
    ((now / 1_000) & LOWER) as u32
}

/// Number of past seconds that count for the budget.
const SECONDS: u32 = 10;

/// Cost of a retry, in hundredths of a retry.
const RETRY: i32 = 100;

const LOWER: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `n` retries are allowed.
    fn allowed(balance: &BudgetBalance, budget: RetryBudget, now: u64, n: usize) -> usize {
        (0..n).filter(|_| balance.withdraw(budget, now)).count()
    }

    #[test]
    fn retries_are_limited_to_a_share_of_recent_requests() {
        let (balance, budget) = (BudgetBalance::default(), RetryBudget { percent: 20, per_second_min: 0 });
        assert_eq!(allowed(&balance, budget, 5_000, 10), 0);
        (0..100).for_each(|n| balance.deposit(budget, 5_000 + n * 50));
        assert_eq!(allowed(&balance, budget, 10_000, 100), 20);
        assert_eq!(allowed(&balance, budget, 11_000, 100), 0);
        (0..100).for_each(|_| balance.deposit(budget, 30_000));
        assert_eq!(allowed(&balance, budget, 39_999, 1), 1);
        assert_eq!(allowed(&balance, budget, 40_000, 100), 0, "requests count for ten seconds");
    }

    #[test]
    fn minimum_of_retries_is_allowed_without_requests() {
        let (balance, budget) = (BudgetBalance::default(), RetryBudget { percent: 0, per_second_min: 2 });
        assert_eq!(allowed(&balance, budget, 1_000, 100), 20);
        assert_eq!(allowed(&balance, budget, 10_999, 100), 0);
        assert_eq!(allowed(&balance, budget, 11_000, 100), 20);
        let none = RetryBudget { percent: 0, per_second_min: 0 };
        assert_eq!(allowed(&balance, none, 100_000, 100), 0);
    }

    #[test]
    fn continuous_failures_do_not_exceed_the_retry_budget() {
        let (balance, budget) = (BudgetBalance::default(), RetryBudget::default());
        let retries: usize = (0..60_000_u64)
            .map(|n| {
                balance.deposit(budget, n);
                allowed(&balance, budget, n, 2)
            })
            .sum();
        // 1,000 requests per second for a minute allow a fifth as many retries, plus ten per second.
        assert!((12_000..13_000).contains(&retries), "{retries}");
    }
}
