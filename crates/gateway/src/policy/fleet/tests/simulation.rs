//! Limits of three replicas under load.

use std::time::Duration;

use thruway_net::{TokenBuckets, TokenRate};
use tokio::time::{Instant, sleep_until};

use super::fleet::{FakeStore, Replica};
use crate::policy::fleet::SharedBudgets;

/// The load of one replica: requests per second.
type Rates = [f64; 3];

/// Result of a load on a fleet.
#[derive(Debug)]
struct Outcome {
    requests: u64,
    admitted: [u64; 3],
    /// Number of requests that a local limit would admit, if one replica got all requests.
    admitted_alone: u64,
    round_trips: u64,
}

impl Outcome {
    fn admitted(&self) -> f64 {
        self.admitted.iter().sum::<u64>() as f64
    }

    fn round_trips_per_request(&self) -> f64 {
        self.round_trips as f64 / self.requests as f64
    }
}

/// Sends requests with random distances for `seconds`. `rates` returns the rates at a time in seconds.
async fn load(
    replicas: &[Replica],
    limits: &[SharedBudgets],
    alone: TokenRate,
    seconds: f64,
    rates: impl Fn(f64) -> Rates,
) -> Outcome {
    let mut random = fastrand::Rng::with_seed(11);
    let start = Instant::now();
    let before: u64 = replicas.iter().map(|replica| replica.limits.counts().round_trips).sum();
    let (mut at, mut requests, mut admitted, mut admitted_alone) = (0.0, 0, [0; 3], 0);
    let local = TokenBuckets::new(8);
    while at < seconds {
        let rates = rates(at);
        let total: f64 = rates.iter().sum();
        at -= (1.0 - random.f64()).ln() / total;
        sleep_until(start + Duration::from_secs_f64(at)).await;
        let mut choice = random.f64() * total;
        let place = rates.iter().position(|rate| {
            choice -= rate;
            choice < 0.0
        });
        let place = place.unwrap_or(0);
        requests += 1;
        admitted_alone += u64::from(local.take(1, alone, replicas[0].now() + 1).is_ok());
        admitted[place] += u64::from(replicas[place].admits(&limits[place], 1, 0));
    }
    let after: u64 = replicas.iter().map(|replica| replica.limits.counts().round_trips).sum();
    Outcome { requests, admitted, admitted_alone, round_trips: after - before }
}

async fn load_on_limit(burst: u32, seconds: f64, rates: impl Fn(f64) -> Rates) -> Outcome {
    let replicas = FakeStore::new().replicas(3);
    let limits: Vec<_> =
        replicas.iter().map(|replica| replica.rate_limit(Duration::from_millis(1), burst)).collect();
    load(&replicas, &limits, TokenRate::new(1000, Duration::from_secs(1), burst), seconds, rates).await
}

#[tokio::test(start_paused = true)]
async fn skewed_load_gets_the_limit_of_the_fleet() {
    for total in [1100.0, 1500.0, 3000.0] {
        for shares in [[0.8, 0.15, 0.05], [0.98, 0.01, 0.01], [0.34, 0.33, 0.33], [0.5, 0.5, 0.0]] {
            let outcome = load_on_limit(1000, 60.0, |_| shares.map(|share| share * total)).await;
            let text = format!("{total} {shares:?}: {outcome:?}");
            assert!(outcome.admitted() <= 60_000.0 * 1.02, "{text}");
            assert!(outcome.admitted() >= 60_000.0 * 0.95, "{text}");
            assert!(outcome.round_trips_per_request() <= 0.01, "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn load_that_moves_between_replicas_gets_the_limit() {
    let outcome = load_on_limit(1000, 60.0, |at| {
        let busy = at as usize % 3;
        let mut rates = [50.0; 3];
        rates[busy] = 2000.0;
        rates
    })
    .await;
    assert!(outcome.admitted() <= 60_000.0 * 1.02, "{outcome:?}");
    assert!(outcome.admitted() >= 60_000.0 * 0.95, "{outcome:?}");
    assert!(outcome.round_trips_per_request() <= 0.01, "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn load_below_the_limit_is_never_refused() {
    for total in [100.0, 500.0, 900.0] {
        let outcome = load_on_limit(1000, 60.0, |_| [0.8, 0.15, 0.05].map(|share| share * total)).await;
        assert_eq!(outcome.admitted() as u64, outcome.requests, "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn small_burst_and_small_limit_hold() {
    for (per_second, burst) in [(1000.0, 1), (1000.0, 50), (10.0, 10), (1.0, 1), (0.1, 3)] {
        let replicas = FakeStore::new().replicas(3);
        let interval = Duration::from_secs_f64(1.0 / per_second);
        let limits: Vec<_> = replicas.iter().map(|replica| replica.rate_limit(interval, burst)).collect();
        let outcome = load(&replicas, &limits, TokenRate::new(1, interval, burst), 60.0, |_| {
            [0.8, 0.15, 0.05].map(|share| share * per_second * 3.0)
        })
        .await;
        let burst = f64::from(burst).max(per_second / 4.0);
        assert!(outcome.admitted() <= 60.0 * per_second * 1.02 + burst + 3.0, "{outcome:?}");
        assert!(outcome.admitted() >= outcome.admitted_alone as f64 * 0.95, "{outcome:?}");
    }
}
