use std::hash::{BuildHasher, RandomState};

use super::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn burst_passes_at_once_then_requests_follow_the_rate() {
    let rate = Rate::new(10, Duration::from_secs(1), 3);
    let mut full_at = 0;
    for _ in 0..3 {
        full_at = rate.take(full_at, SECOND).unwrap();
    }
    assert_eq!(rate.take(full_at, SECOND), Err(Duration::from_millis(100)));
    assert_eq!(rate.take(full_at, SECOND + 99_999_999), Err(Duration::from_nanos(1)));
    full_at = rate.take(full_at, SECOND + 100_000_000).unwrap();
    assert_eq!(rate.take(full_at, SECOND + 100_000_000), Err(Duration::from_millis(100)));
    let later = 100 * SECOND;
    for _ in 0..3 {
        full_at = rate.take(full_at, later).unwrap();
    }
    assert!(rate.take(full_at, later).is_err(), "a bucket holds at most a burst");
}

#[test]
fn extreme_rates_and_times_do_not_overflow() {
    let fast = Rate::new(u32::MAX, Duration::from_nanos(1), u32::MAX);
    assert!(fast.take(0, 0).is_ok());
    let slow = Rate::new(1, Duration::MAX, u32::MAX);
    assert!(slow.take(0, u64::MAX).is_ok());
    assert!(Rate::new(0, Duration::ZERO, 0).take(0, 5).is_ok());
}

#[test]
fn each_key_has_its_own_bucket() {
    let buckets = Buckets::new(64);
    let rate = Rate::new(1, Duration::from_secs(1), 1);
    let keys: Vec<u64> = (0..8).map(|key| RandomState::new().hash_one(key)).collect();
    for key in &keys {
        assert!(buckets.take(*key, rate, SECOND).is_ok());
    }
    for key in &keys {
        assert!(buckets.take(*key, rate, SECOND).is_err());
        assert!(buckets.take(*key, rate, 2 * SECOND).is_ok());
    }
}

#[test]
fn bucket_memory_is_independent_of_number_of_keys() {
    let buckets = Buckets::new(RateLimitConfig::KEYS_MAX);
    let bytes = buckets.bytes();
    assert!(bytes <= RateLimitConfig::KEYS_MAX * 17 + RateLimitConfig::KEYS_MAX, "{bytes}");
    let hasher = RandomState::new();
    let rate = Rate::new(1, Duration::from_hours(1), 2);
    // The table keeps the key that has used both of its tokens longer than the other keys.
    let spent = hasher.hash_one("spent");
    (0..2).for_each(|_| buckets.take(spent, rate, SECOND).unwrap());
    for key in 0..1_000_000 {
        assert!(buckets.take(hasher.hash_one(key), rate, SECOND).is_ok());
    }
    assert_eq!(buckets.bytes(), bytes);
    assert!(buckets.take(spent, rate, SECOND).is_err());
}
