//! Tests of the limits of concurrent requests and connections, and of the queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thruway_gateway::{QueueConfig, RetryBudget, ServerState, UpstreamConfig};
use thruway_net::Clock;

use crate::backend::{Backend, Behavior};
use crate::gateway::{Gateway, PendingRequest, TEST_TIMEOUT, until};

/// Each server handles one request at a time, and the queue holds one more.
fn config<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let mut config = UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address));
    config.servers.iter_mut().for_each(|server| server.requests_max = 1);
    config.queue.length_max = 1;
    config
}

#[test]
fn full_queue_gets_503_with_retry_after() {
    let backend = Backend::start(Behavior::Holds);
    let gateway = Gateway::start(config([&backend]));
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    let third = gateway.get();
    assert_eq!(third.status, 503);
    assert_eq!(third.field("proxy-status"), Some("thruway; error=connection_limit_reached"));
    assert_eq!(third.field("retry-after"), Some("1"));
    assert_eq!(backend.requests(), 1);
    backend.set_behavior(Behavior::named("one"));
    assert_eq!((first.end().content, second.end().content), ("one".to_owned(), "one".to_owned()));
    assert_eq!(gateway.upstream.waiting(), 0);
}

#[test]
fn queue_timeout_gets_503_with_retry_after() {
    let backend = Backend::start(Behavior::Holds);
    let queue = QueueConfig { timeout: Duration::from_millis(50), ..QueueConfig::default() };
    let gateway = Gateway::start(UpstreamConfig { queue, ..config([&backend]) });
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = gateway.get();
    assert_eq!((second.status, second.field("retry-after")), (503, Some("1")));
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(first.end().status, 200);
    assert_eq!(backend.requests(), 1);
}

#[test]
fn disconnected_client_leaves_the_queue() {
    let backend = Backend::start(Behavior::Holds);
    let gateway = Gateway::start(config([&backend]));
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    let second = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    second.reset();
    until(|| gateway.upstream.waiting() == 0);
    let third = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    backend.set_behavior(Behavior::named("one"));
    assert_eq!((first.end().status, third.end().status), (200, 200));
    assert_eq!(backend.requests(), 2);
}

#[test]
fn requests_max_holds_and_every_request_is_answered() {
    let backends = ["one", "two"].map(Backend::named);
    let queue = QueueConfig::default();
    let gateway = Gateway::start(UpstreamConfig { queue, ..config(&backends) });
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(gateway.get().status, 200)));
        }
    });
    assert_eq!(backends.each_ref().map(Backend::most_concurrent), [1, 1]);
    assert_eq!(backends.iter().map(Backend::requests).sum::<usize>(), 320);
}

/// Starts two requests: one at a server that hangs, and one that failed at the other server and waits for the
/// first. The other server then recovers.
fn with_waiting_retry(length_max: usize) -> ([Backend; 2], Gateway, [PendingRequest; 2]) {
    let (fails, hangs) = (Backend::start(Behavior::Closes), Backend::start(Behavior::Holds));
    let mut config = config([&fails, &hangs]);
    config.ejection.failures = 0;
    config.queue = QueueConfig { timeout: TEST_TIMEOUT, length_max };
    let gateway = Gateway::start(config);
    let first = gateway.begin("GET", "");
    until(|| hangs.requests() == 1);
    let retry = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    fails.set_behavior(Behavior::named("well"));
    ([fails, hangs], gateway, [first, retry])
}

/// Regression test: a retry without a free server made all other requests wait, or had them refused.
#[test]
fn waiting_retry_does_not_block_other_requests() {
    let ([_fails, hangs], gateway, [first, retry]) = with_waiting_retry(1);
    for _ in 0..10 {
        let got = gateway.get();
        assert_eq!((got.status, &*got.content), (200, "well"), "the queue is full");
    }
    assert_eq!(gateway.upstream.waiting(), 1);
    hangs.set_behavior(Behavior::named("late"));
    assert_eq!((first.end().content, retry.end().content), ("late".to_owned(), "late".to_owned()));
}

/// Other requests may overtake the retry, but not forever.
#[test]
fn waiting_retry_is_served_despite_new_requests() {
    let ([_fails, hangs], gateway, [first, retry]) = with_waiting_retry(1_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(gateway.get().status, 200);
                }
            });
        }
        hangs.set_behavior(Behavior::named("late"));
        let outcome = retry.end().content;
        is_over.store(true, Ordering::Relaxed);
        assert_eq!((first.end().content, outcome), ("late".to_owned(), "late".to_owned()));
    });
}

#[test]
fn requests_max_of_upstream_limits_all_servers_together() {
    let backends = ["one", "two"].map(|_| Backend::start(Behavior::Holds));
    let mut config = UpstreamConfig { requests_max: 1, ..config(&backends) };
    config.servers.iter_mut().for_each(|server| server.requests_max = 0);
    let gateway = Gateway::start(config);
    let requests = || backends.iter().map(Backend::requests).sum::<usize>();
    let first = gateway.begin("GET", "");
    until(|| requests() == 1);
    let second = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    assert_eq!(gateway.get().status, 503, "the queue is full");
    assert_eq!(requests(), 1);
    for backend in &backends {
        backend.set_behavior(Behavior::named("one"));
    }
    assert_eq!((first.end().status, second.end().status), (200, 200));
    let (busy, idle) = (gateway.upstream.waiting_counts(), gateway.upstream.idle_connections());
    assert_eq!(busy.buckets.iter().sum::<u64>(), 1);
    assert!(busy.time > Duration::ZERO);
    assert!(idle > 0, "idle connections are kept");
    // Requests that left the queue no longer count toward the limits.
    (0..4).for_each(|_| assert_eq!(gateway.get().status, 200));
}

/// The limit is two connections, one for each of the two workers.
fn two_connections<'b>(backends: impl IntoIterator<Item = &'b Backend>) -> UpstreamConfig {
    let config = UpstreamConfig::new("a", backends.into_iter().map(Backend::upstream_address));
    UpstreamConfig { connections_max: 2, ..config }
}

#[test]
fn waiting_requests_reuse_connections_at_connections_max() {
    let backend = Backend::named("one");
    let gateway = Gateway::start(two_connections([&backend]));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(gateway.get().status, 200)));
        }
    });
    assert_eq!((backend.connections(), gateway.upstream.open_connections()), (2, 2));
    assert!(gateway.upstream.waiting_counts().buckets.iter().sum::<u64>() > 0);
}

#[test]
fn idle_connection_is_replaced_by_one_to_another_server() {
    let backends = ["one", "two"].map(Backend::named);
    let gateway = Gateway::start(two_connections(&backends));
    for _ in 0..8 {
        assert_eq!(gateway.get().status, 200);
        assert!(gateway.upstream.open_connections() <= 2);
    }
    assert!(backends.iter().all(|backend| backend.requests() > 0), "both servers get requests");
}

#[test]
fn waiting_for_a_connection_times_out_with_503() {
    let backend = Backend::start(Behavior::Holds);
    let queue = QueueConfig { timeout: Duration::from_millis(50), ..QueueConfig::default() };
    let gateway = Gateway::start(UpstreamConfig { queue, ..two_connections([&backend]) });
    let first = ["GET", "GET"].map(|method| gateway.begin(method, ""));
    until(|| backend.requests() == 2);
    let third = gateway.get();
    assert_eq!((third.status, third.field("retry-after")), (503, Some("1")));
    assert_eq!(third.field("proxy-status"), Some("thruway; error=connection_limit_reached"));
    assert_eq!(gateway.upstream.server_statuses()[0].state, ServerState::Up);
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(first.map(|pending| pending.end().status), [200, 200]);
    until(|| gateway.get().status == 200);
}

/// Regression test: the wait counted as latency of the server, both in `/metrics` and for load balancing.
#[test]
fn waiting_for_a_connection_does_not_count_as_server_time() {
    let backend = Backend::start(Behavior::Holds);
    let gateway = Gateway::timed(two_connections([&backend]));
    let first = ["GET", "GET"].map(|method| gateway.begin(method, ""));
    until(|| backend.requests() == 2);
    let third = gateway.begin("GET", "");
    until(|| gateway.upstream.waiting() == 1);
    // Makes the wait long enough to be noticed.
    let began = Clock::system().now_exact();
    until(|| Clock::system().now_exact() > began + Duration::from_millis(50));
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(first.map(|pending| pending.end().status), [200, 200]);
    assert_eq!(third.end().status, 200);
    let server = &gateway.upstream.server_statuses()[0];
    let (all, waiting) = (gateway.upstream.response_counts().time, gateway.upstream.waiting_counts().time);
    assert!(waiting >= Duration::from_millis(50), "{waiting:?}");
    assert!(
        server.durations[0].sum + waiting <= all + Duration::from_millis(1),
        "{server:?} {waiting:?} {all:?}"
    );
}

#[test]
fn closed_connections_and_tunnels_free_their_permits() {
    let backend = Backend::start(Behavior::Closes);
    let gateway = Gateway::start(two_connections([&backend]));
    for _ in 0..4 {
        assert_eq!(gateway.get().status, 502);
    }
    until(|| gateway.upstream.open_connections() == 0);
    backend.set_behavior(Behavior::Upgrades);
    let mut tunnel = gateway.begin_with("GET", "Connection: upgrade\r\nUpgrade: x\r\n");
    assert_eq!(tunnel.first(), "HTTP/1.1 101");
    assert_eq!(gateway.upstream.open_connections(), 1);
    drop(tunnel);
    until(|| gateway.upstream.open_connections() == 0);
}

/// Regression test: connections stayed open until the same worker had another idle connection.
#[test]
fn idle_connections_are_closed_without_further_requests() {
    let backend = Backend::named("one");
    let mut config = UpstreamConfig::new("a", [backend.upstream_address()]);
    config.pool.idle = Duration::from_millis(200);
    let gateway = Gateway::start(config);
    assert_eq!(gateway.get().status, 200);
    until(|| gateway.upstream.idle_connections() == 0);
    // Connections that open after a pause are closed in time as well.
    assert_eq!(gateway.get().status, 200);
    until(|| gateway.upstream.idle_connections() == 0);
}

/// Regression test: the connections stayed in `CLOSE_WAIT` until the next request.
#[test]
fn connections_closed_by_server_are_removed_without_a_request() {
    let mut backend = Backend::named("one");
    let mut config = UpstreamConfig::new("a", [backend.upstream_address()]);
    config.pool.idle = Duration::from_secs(2);
    let gateway = Gateway::start(config);
    assert_eq!(gateway.get().status, 200);
    backend.stop();
    until(|| gateway.upstream.idle_connections() == 0);
}

#[test]
fn zero_queue_length_gets_503_at_once() {
    let backend = Backend::start(Behavior::Holds);
    let queue = QueueConfig { length_max: 0, ..QueueConfig::default() };
    let gateway = Gateway::start(UpstreamConfig { queue, ..config([&backend]) });
    let first = gateway.begin("GET", "");
    until(|| backend.requests() == 1);
    assert_eq!(gateway.get().status, 503);
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(first.end().status, 200);
}

#[test]
fn open_tunnel_counts_toward_requests_max() {
    let backend = Backend::start(Behavior::Upgrades);
    let queue = QueueConfig { length_max: 0, ..QueueConfig::default() };
    let gateway = Gateway::start(UpstreamConfig { queue, ..config([&backend]) });
    let mut tunnel = gateway.begin_with("GET", "Connection: upgrade\r\nUpgrade: x\r\n");
    assert_eq!(tunnel.first(), "HTTP/1.1 101");
    backend.set_behavior(Behavior::named("one"));
    assert_eq!(gateway.get().status, 503);
    drop(tunnel);
    until(|| gateway.get().status == 200);
}

#[test]
fn spent_retry_budget_returns_the_first_failure() {
    let absent = ["one", "two"].map(|name| Backend::absent(Behavior::named(name)));
    let present = Backend::named("three");
    let mut config = UpstreamConfig::new("a", absent.iter().chain([&present]).map(Backend::upstream_address));
    config.ejection.failures = 0;
    config.retry_budget = RetryBudget { percent: 0, per_second_min: 1 };
    let gateway = Gateway::start(config);
    let statuses: Vec<_> = (0..30).map(|_| gateway.get().status).collect();
    // The budget allows ten retries. Each request that starts at an absent server needs one or two.
    let failed = statuses.iter().filter(|status| **status == 502).count();
    assert!((10..20).contains(&failed), "{statuses:?}");
}
