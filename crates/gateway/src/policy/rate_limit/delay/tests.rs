//! Tests of delayed requests. They use the paused time of tokio.

use std::cell::RefCell;
use std::future::poll_fn;

use thruway_net::Clock;
use thruway_server::IntoHandler;
use thruway_server::testing::TestClient;
use tokio::time::{Instant, timeout};

use super::*;
use crate::{CountBy, Guarded, Policy, PolicyConfig};

/// Returns a policy that allows `requests` requests per second, one at once. It delays further requests up to
/// `time_max`.
fn policy(requests: u32, delay: DelayConfig) -> Arc<Policy> {
    let config = RateLimitConfig { burst: 1, by: CountBy::All, ..RateLimitConfig::per_second(requests) };
    let config = RateLimitConfig { delay: Some(delay), ..config };
    Arc::new(Policy::new("steady", PolicyConfig::RateLimit(config)))
}

fn client_of(policy: Arc<Policy>) -> TestClient {
    TestClient::new(Guarded::new(policy, "route", (|| "ok").into_handler()))
}

/// Sends a request, and returns its status and the time of its response since `start`.
async fn ask(client: &TestClient, start: Instant) -> (u16, Duration) {
    let response = client.get("/").send().await.unwrap();
    (response.status().as_u16(), start.elapsed())
}

fn milliseconds(time: Duration) -> u128 {
    time.as_millis()
}

#[tokio::test(start_paused = true)]
async fn requests_above_the_limit_continue_in_order_at_the_rate() {
    let client = client_of(policy(10, DelayConfig::up_to(Duration::from_secs(1))));
    let start = Instant::now();
    let order = RefCell::new(Vec::new());
    let nth = async |n: usize| {
        let (status, time) = ask(&client, start).await;
        order.borrow_mut().push(n);
        (status, milliseconds(time))
    };
    let got = tokio::join!(nth(0), nth(1), nth(2), nth(3));
    assert_eq!(order.into_inner(), [0, 1, 2, 3]);
    // The timer of tokio rounds up to a millisecond.
    for (n, (status, time)) in [got.0, got.1, got.2, got.3].into_iter().enumerate() {
        let expected = n as u128 * 100;
        assert!(status == 200 && (expected..expected + 2).contains(&time), "{n}: {status} after {time} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn late_timers_do_not_lower_the_rate() {
    // The interval of 100 µs is shorter than the precision of timers.
    let client = client_of(policy(10_000, DelayConfig::up_to(Duration::from_secs(1))));
    let start = Instant::now();
    let ten = || async { tokio::join!(ask(&client, start), ask(&client, start), ask(&client, start)) };
    for _ in 0..10 {
        tokio::join!(ten(), ten(), ten());
    }
    // 90 requests need 9 ms at this rate, and each round waits for at most one more millisecond.
    assert!(start.elapsed() <= Duration::from_millis(20), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn request_that_would_wait_too_long_is_refused_at_once() {
    let client = client_of(policy(10, DelayConfig::up_to(Duration::from_millis(150))));
    let start = Instant::now();
    let got = tokio::join!(ask(&client, start), ask(&client, start), ask(&client, start));
    assert_eq!((got.0.0, got.1.0), (200, 200));
    assert_eq!((got.2.0, milliseconds(got.2.1)), (429, 0));
}

#[tokio::test(start_paused = true)]
async fn number_of_waiting_requests_is_limited() {
    let delay = DelayConfig { time_max: Duration::from_secs(10), requests_max: 2 };
    let client = client_of(policy(10, delay));
    let start = Instant::now();
    let one = || ask(&client, start);
    let got = tokio::join!(one(), one(), one(), one());
    assert_eq!([got.0.0, got.1.0, got.2.0, got.3.0], [200, 200, 200, 429]);
    // Afterwards, no request waits.
    assert_eq!(ask(&client, start).await.0, 200);
}

/// If a client disconnects, the server drops the future of its request.
#[tokio::test(start_paused = true)]
async fn requests_behind_a_dropped_request_move_up() {
    let config = RateLimitConfig { burst: 1, by: CountBy::All, ..RateLimitConfig::per_second(1) };
    let queue = DelayingRateLimit::new(&config, DelayConfig::up_to(Duration::from_secs(10))).queue;
    let worker = Worker::for_test(Clock::tokio());
    let enter = || match queue.enter(0, now_of(&worker)) {
        Entry::Waits(number) => {
            let (queue, worker) = (queue.clone(), worker.clone());
            Some(Delay { queue, key: 0, number, worker, timer: None, is_admitted: false })
        }
        Entry::Admitted | Entry::Refused(_) => None,
    };
    let start = Instant::now();
    assert!(enter().is_none(), "the burst allows the first request");
    let (first, second, third) = (enter().unwrap(), enter().unwrap(), enter().unwrap());
    // The first two waiting requests leave after half a second.
    let half = Duration::from_millis(500);
    let got = tokio::join!(timeout(half, first), timeout(half, second), third);
    assert!(got.0.is_err() && got.1.is_err());
    assert!((1_000..1_003).contains(&milliseconds(start.elapsed())), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn dropped_requests_leave_no_state() {
    let config = RateLimitConfig { burst: 1, by: CountBy::All, ..RateLimitConfig::per_second(1) };
    let limit = DelayingRateLimit::new(&config, DelayConfig::up_to(Duration::from_mins(1)));
    let queue = &limit.queue;
    assert!(matches!(queue.enter(7, 0), Entry::Admitted));
    let numbers: Vec<u64> = (0..3)
        .map(|_| match queue.enter(7, 0) {
            Entry::Waits(number) => number,
            _ => panic!("the request must wait"),
        })
        .collect();
    // Another key has its own line.
    assert!(matches!(queue.enter(8, 0), Entry::Admitted));
    poll_fn(|cx| {
        assert!(queue.poll(7, numbers[1], 0, cx.waker()).is_pending());
        assert_eq!(queue.poll(7, numbers[0], 0, cx.waker()), Poll::Ready(Some(1_000_000_000)));
        queue.remove(&mut queue.lock(), 7, numbers[0]);
        assert_eq!(queue.poll(7, numbers[1], 0, cx.waker()), Poll::Ready(Some(1_000_000_000)));
        assert_eq!(queue.poll(7, numbers[1], 1_500_000_000, cx.waker()), Poll::Ready(None));
        // The time of the next request does not depend on the delay of its predecessor.
        assert_eq!(queue.poll(7, numbers[2], 1_500_000_000, cx.waker()), Poll::Ready(Some(2_000_000_000)));
        Poll::Ready(())
    })
    .await;
    queue.remove(&mut queue.lock(), 7, numbers[2]);
    assert_eq!(queue.waiting.load(Ordering::SeqCst), 0);
    assert!(queue.lock().by_key.is_empty());
}
