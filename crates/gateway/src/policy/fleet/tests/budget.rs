//! Budgets of single keys.

use super::super::budget::{Budget, BudgetRules, Demand, SEEN_MAX, Settled, Settlement};
use super::super::queue::AtTick;

const MS: u64 = 1_000_000;

fn rules() -> BudgetRules {
    BudgetRules::of_rate(MS, 1000)
}

/// Returns a budget at the time 0 with this answer of the store.
fn settled(granted: u32, credit: u32, retry_after: u64) -> Budget {
    let mut budget = Budget::unknown(0, 1000);
    budget.take(&rules(), 3, 0);
    budget.begin(&rules(), 0);
    budget.finish(Settled { granted, credit, retry_after }, 0);
    budget
}

#[test]
fn first_request_of_a_key_is_admitted_and_charged_later() {
    let mut budget = Budget::unknown(0, 1000);
    let first = budget.take(&rules(), 3, 0);
    assert_eq!((first.wait, first.demand), (None, Demand::Now));
    assert_eq!(budget.take(&rules(), 3, 0).demand, Demand::None, "one settlement at a time");
    assert_eq!(budget.begin(&rules(), 0), Settlement { spent: 2, wanted: 0 });
    assert!(!budget.finish(Settled { granted: 0, credit: 900, retry_after: 0 }, MS));
}

#[test]
fn requests_during_a_settlement_are_charged_by_the_next_one() {
    let mut budget = Budget::unknown(0, 1000);
    budget.take(&rules(), 3, 0);
    budget.begin(&rules(), 0);
    budget.take(&rules(), 3, 0);
    assert!(budget.finish(Settled { granted: 0, credit: 900, retry_after: 0 }, MS));
    assert_eq!(budget.begin(&rules(), MS).spent, 1);
}

#[test]
fn granted_tokens_that_are_not_used_return() {
    let mut budget = settled(100, 0, MS);
    for _ in 0..30 {
        assert_eq!(budget.take(&rules(), 3, 0).wait, None);
    }
    assert_eq!(budget.at_tick(&rules(), 250 * MS), AtTick::Keep, "the key is in use");
    assert_eq!(budget.at_tick(&rules(), 400 * MS), AtTick::Settle);
    assert_eq!(budget.begin(&rules(), 400 * MS), Settlement { spent: -70, wanted: 0 });
}

#[test]
fn replica_without_tokens_uses_its_share_of_the_rate() {
    let mut budget = settled(0, 0, MS);
    let admitted = (1..=90).filter(|ms| budget.take(&rules(), 3, ms * MS).wait.is_none()).count();
    assert_eq!(admitted, 30);
}

#[test]
fn debt_of_the_bucket_delays_the_share() {
    let mut budget = settled(0, 0, 400 * MS);
    assert!(budget.take(&rules(), 3, 140 * MS).wait.is_some());
    assert!(budget.take(&rules(), 3, 160 * MS).wait.is_none());
}

#[test]
fn exhausted_key_causes_no_settlement_until_a_token_is_near() {
    let rules = BudgetRules::of_rate(10_000 * MS, 3);
    let mut budget = Budget::unknown(0, 3);
    budget.take(&rules, 3, 0);
    budget.begin(&rules, 0);
    budget.finish(Settled { granted: 0, credit: 0, retry_after: 10_000 * MS }, 0);
    for ms in 0..9_000 {
        let refused = budget.take(&rules, 3, ms * MS);
        assert_eq!(refused.demand, Demand::None);
        assert!(refused.wait.is_some());
    }
    assert_eq!(budget.take(&rules, 3, 9_800 * MS).demand, Demand::Now);
    assert!(
        budget.take(&rules, 3, 10_000 * MS).wait.is_none(),
        "the first request after the wait is admitted"
    );
    assert!(budget.take(&rules, 3, 10_001 * MS).wait.is_some());
}

#[test]
fn two_hundred_requests_cause_one_settlement() {
    let mut budget = settled(0, 1000, 0);
    let demands = |demand: Demand, budget: &mut Budget| {
        (0..SEEN_MAX).filter(|_| budget.take(&rules(), 3, 200 * MS).demand == demand).count()
    };
    assert_eq!(demands(Demand::Now, &mut budget.clone()), 1);
    assert_eq!(demands(Demand::Later, &mut budget), 1);
}

#[test]
fn failed_settlement_does_not_lose_the_charge() {
    let mut budget = settled(10, 0, MS);
    for _ in 0..10 {
        budget.take(&rules(), 3, 0);
    }
    assert_eq!(budget.begin(&rules(), 0).spent, 0);
    budget.fail();
    assert!(budget.take(&rules(), 3, 0).wait.is_some(), "granted tokens are gone");
    let mut budget = settled(0, 100, 0);
    (0..10).for_each(|_| assert!(budget.take(&rules(), 3, 0).wait.is_none()));
    budget.begin(&rules(), 0);
    budget.fail();
    assert_eq!(budget.begin(&rules(), 0).spent, 10);
}

#[test]
fn bucket_holds_a_quarter_of_a_second() {
    assert_eq!(BudgetRules::of_rate(MS, 1).capacity, 250);
    assert_eq!(BudgetRules::of_rate(MS, 300).capacity, 300);
    assert_eq!(BudgetRules::of_rate(12_000 * MS, 1).capacity, 1);
    assert_eq!(BudgetRules::of_rate(0, u32::MAX).capacity, u32::MAX);
}
