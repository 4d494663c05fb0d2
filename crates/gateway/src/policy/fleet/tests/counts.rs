//! Counts of shared limits across reloads.

use std::time::Duration;

use super::super::{OnStoreFailure, SharedBudgets, SharedLimits};

fn budgets(limits: &SharedLimits) -> SharedBudgets {
    SharedBudgets::of_rate("a".into(), (10, Duration::from_secs(1)), 10, 8, limits.clone())
}

#[test]
fn counts_of_a_policy_survive_a_reload_but_not_its_removal() {
    let limits = SharedLimits::new(&[1; 32]);
    let add = |budgets: &SharedBudgets| {
        limits.register(&"a".into(), "rate_limit", OnStoreFailure::Deny, budgets.counters())
    };
    let (first, second) = (budgets(&limits), budgets(&limits));
    let counts = add(&first);
    counts.add(true, true);
    let kept = add(&second);
    drop((first, counts));
    kept.add(false, false);
    let status = &limits.statuses()[0];
    assert_eq!((status.admitted, status.refused, status.without_store), (1, 1, 1));
    assert_eq!((&*status.policy, status.kind, status.leased), ("a", "rate_limit", 0));
    drop((second, kept));
    assert_eq!(limits.statuses(), []);
}
