use std::sync::Arc;

use thruway_mcp_server::Identity;

use super::*;

fn caller(subject: &str) -> Caller {
    Caller::Identified(Arc::new(Identity { subject: subject.to_owned(), ..Identity::default() }), None)
}

const fn per_second(calls: u32) -> CallRate {
    CallRate { calls, per: Duration::from_secs(1), burst: calls }
}

fn limits(limits: &[CallLimit]) -> CallLimits {
    CallLimits::compile(limits).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_caller_has_its_own_rate() {
    let limits = limits(&[CallLimit { rate: Some(per_second(2)), ..CallLimit::default() }]);
    for caller in [caller("ada"), caller("bob"), Caller::Anonymous(None), Caller::Local] {
        if matches!(caller, Caller::Local) {
            // Programs on this machine and clients without an address share a counter.
            assert!(limits.admit(&caller, "a").is_err());
            continue;
        }
        assert!(limits.admit(&caller, "a").is_ok() && limits.admit(&caller, "b").is_ok());
        let refused = limits.admit(&caller, "a").unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(500));
    }
    tokio::time::advance(Duration::from_millis(500)).await;
    assert!(limits.admit(&caller("ada"), "a").is_ok());
    assert!(limits.admit(&caller("ada"), "a").is_err());
}

#[tokio::test(start_paused = true)]
async fn limit_applies_to_matching_tools_only() {
    let tools = vec!["search__*".to_owned()];
    let limits = limits(&[CallLimit { tools, rate: Some(per_second(1)), ..CallLimit::default() }]);
    let ada = caller("ada");
    assert!(limits.admit(&ada, "search__find").is_ok());
    assert!(limits.admit(&ada, "search__other").is_err());
    assert!((0..100).all(|_| limits.admit(&ada, "files__read").is_ok()));
}

#[tokio::test(start_paused = true)]
async fn tools_can_have_separate_counters() {
    let by = LimitBy::CallerAndTool;
    let limits = limits(&[CallLimit { rate: Some(per_second(1)), by, ..CallLimit::default() }]);
    let ada = caller("ada");
    assert!(limits.admit(&ada, "a").is_ok() && limits.admit(&ada, "b").is_ok());
    assert!(limits.admit(&ada, "a").is_err() && limits.admit(&ada, "b").is_err());
}

#[tokio::test(start_paused = true)]
async fn call_must_be_within_all_limits() {
    let concurrent = CallLimit { concurrent: Some(1), ..CallLimit::default() };
    let limits = limits(&[concurrent, CallLimit { rate: Some(per_second(2)), ..CallLimit::default() }]);
    let ada = caller("ada");
    let first = limits.admit(&ada, "a").unwrap();
    assert_eq!(limits.admit(&ada, "a").unwrap_err().retry_after, Duration::from_secs(1));
    drop(first);
    drop(limits.admit(&ada, "a").unwrap());
    assert_eq!(limits.admit(&ada, "a").unwrap_err().retry_after, Duration::from_millis(500));
    // The refused call does not count as a call in flight.
    tokio::time::advance(Duration::from_millis(500)).await;
    assert!(limits.admit(&ada, "a").is_ok());
}

/// Regression test: a call above a later limit of calls in flight also counted toward an earlier rate.
#[tokio::test(start_paused = true)]
async fn call_that_waits_for_other_calls_does_not_count_toward_rates() {
    let concurrent = CallLimit { concurrent: Some(1), ..CallLimit::default() };
    let limits = limits(&[CallLimit { rate: Some(per_second(2)), ..CallLimit::default() }, concurrent]);
    let ada = caller("ada");
    let first = limits.admit(&ada, "a").unwrap();
    assert!(limits.admit(&ada, "a").is_err());
    drop(first);
    assert!(limits.admit(&ada, "a").is_ok());
}

/// Regression test: a call above the second rate also counted toward the first rate.
#[tokio::test(start_paused = true)]
async fn call_above_one_rate_counts_toward_no_other_rate() {
    let one_per_second =
        CallLimit { tools: vec!["a".to_owned()], rate: Some(per_second(1)), ..CallLimit::default() };
    let limits = limits(&[CallLimit { rate: Some(per_second(3)), ..CallLimit::default() }, one_per_second]);
    let ada = caller("ada");
    assert!(limits.admit(&ada, "a").is_ok());
    for _ in 0..10 {
        assert_eq!(limits.admit(&ada, "a").unwrap_err().retry_after, Duration::from_secs(1));
    }
    assert!(limits.admit(&ada, "b").is_ok() && limits.admit(&ada, "b").is_ok());
    assert!(limits.admit(&ada, "b").is_err());
}

#[test]
fn invalid_limits_are_errors() {
    let rate = Some(CallRate { calls: 0, per: Duration::from_secs(1), burst: 1 });
    for (limit, error) in [
        (CallLimit::default(), InvalidLimit::Empty),
        (CallLimit { rate, ..CallLimit::default() }, InvalidLimit::Zero),
        (CallLimit { concurrent: Some(0), ..CallLimit::default() }, InvalidLimit::Zero),
        (CallLimit { concurrent: Some(1), tools: Vec::new(), ..CallLimit::default() }, InvalidLimit::Zero),
    ] {
        let limits = [CallLimit { concurrent: Some(1), ..CallLimit::default() }, limit];
        assert_eq!(CallLimits::compile(&limits).unwrap_err(), (2, error));
    }
}
