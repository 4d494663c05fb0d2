//! Three gateway processes whose shared store fails, or one of which fails. `cargo xtask interop --redis` runs the tests
//! with real servers of Redis and Sentinel. Each test prints a line with its figures.

mod fleet;
mod orders;
mod servers;
mod sessions;
mod settings;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use thruway_net::Clock;

use crate::process::{Signal, TIMEOUT};
use fleet::{Figures, Fleet, QUOTA, RATE, SLOTS};
use servers::{Proxy, RedisServer, until_replicated};

/// Time for which a test counts admitted requests.
const WINDOW: Duration = Duration::from_secs(2);

/// Requests that a rate limit admits in [`WINDOW`].
const RATE_IN_WINDOW: usize = 2 * RATE;

/// Maximum time of a request: requests never wait for the store. The time is for a busy machine. Without the failure
/// policies, a request would wait for the store until the end of the fault, at least 4 s.
const REQUEST_MAX: Duration = Duration::from_secs(1);

/// Maximum time from the recovery of the store until the limits are correct.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Maximum growth of the memory of a gateway while the store fails.
const GROWTH_MAX: i64 = 3 << 10;

/// Maximum number of connections in the ten seconds after a recovery: two for each gateway, five for the attempts of
/// each gateway that a stopped server has not accepted yet, and some for `redis-cli`.
const CONNECTIONS_MAX: u64 = 3 * 7 + 4;

/// Number of pairs of measurements.
const PAIRS: usize = 9;

/// The tests run one after the other, because each of them needs both cores of a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn now() -> Duration {
    Clock::system().now_exact()
}

fn since(start: Duration) -> Duration {
    now().saturating_sub(start)
}

/// Waits until `is_met` returns `true`. Returns the time that this took.
fn until(is_met: impl Fn() -> bool) -> Duration {
    within("the condition is met", is_met)
}

fn within(what: &str, is_met: impl Fn() -> bool) -> Duration {
    let start = now();
    while !is_met() {
        assert!(since(start) < TIMEOUT, "waited too long until {what}");
        thread::sleep(Duration::from_millis(2));
    }
    since(start)
}

/// The server that has the data after a fault, and its numbers of connections and commands at the recovery.
type Recovered<'a> = (&'a RedisServer, Counts);

/// Numbers of connections and commands of a server.
type Counts = [u64; 2];

fn counts(server: &RedisServer) -> Counts {
    ["total_connections_received", "total_commands_processed"].map(|name| server.info(name))
}

/// Checks all limits before, during and after a fault of `server`. `begin` begins the fault. `end` ends it, and returns
/// when the store works again.
fn check_fault<'a>(
    fault: &'static str,
    fleet: &Fleet,
    server: &RedisServer,
    begin: impl FnOnce(),
    end: impl FnOnce() -> Recovered<'a>,
) {
    let load = fleet.load();
    let start = counts(server);
    thread::sleep(RECOVERY_MAX);
    let before = counts(server)[1] - start[1];
    let (memory, requests) = (fleet.memory(), load.requests());
    begin();
    let targets = ["/rate/deny", "/quota/deny", "/slots/deny"];
    let detected = until(|| targets.iter().all(|target| fleet.all(target, "503")));
    let during = check_policies(fleet);
    // The load has new keys all the time.
    until(|| load.requests() > requests + 6000);
    let growth = fleet
        .memory()
        .into_iter()
        .zip(memory)
        .map(|(now, then)| (now >> 10).cast_signed() - (then >> 10).cast_signed());
    let growth: Vec<_> = growth.collect();
    let (server, start) = end();
    let ended = now();
    let (recovered, after) = check_recovery(fleet);
    thread::sleep(RECOVERY_MAX.saturating_sub(since(ended)));
    let [connections, commands] = counts(server);
    check_quota_and_slots(fleet);
    let requests = load.requests();
    let longest = load.end();
    let (connections, commands) = (connections - start[0], [before, commands - start[1]]);
    let admitted = [during, after];
    let figures =
        Figures { fault, detected, recovered, longest, requests, admitted, growth, connections, commands };
    println!("{figures}");
    assert!(figures.growth.iter().all(|growth| *growth < GROWTH_MAX), "{figures}");
    assert!(figures.longest < REQUEST_MAX, "{figures}");
    assert!(figures.recovered < RECOVERY_MAX, "{figures}");
    assert!(figures.connections <= CONNECTIONS_MAX, "{figures}");
    assert!(figures.commands[1] < 2 * figures.commands[0] + 2000, "{figures}");
}

/// Asserts that each policy does as it declares. Returns the number of requests that `local` admits in [`WINDOW`].
fn check_policies(fleet: &Fleet) -> usize {
    let admitted = fleet.admitted("/rate/local", WINDOW);
    // The buckets of the gateways are full at the start of the fault.
    let limit = RATE + RATE_IN_WINDOW;
    assert!((limit / 2..=limit * 11 / 10).contains(&admitted), "{admitted} of {limit}");
    assert!(fleet.admitted("/rate/allow", WINDOW) > limit * 2);
    assert_eq!(fleet.admitted("/rate/deny", WINDOW / 4), 0);
    assert_eq!(fleet.occupied("/slots/local", 2 * SLOTS, WINDOW / 4).len(), SLOTS);
    assert!(fleet.occupied("/slots/allow", 2 * SLOTS, WINDOW / 4).len() >= 2 * SLOTS);
    assert!(fleet.occupied("/slots/deny", 2 * SLOTS, WINDOW / 4).is_empty());
    assert_eq!(fleet.admitted("/quota/local", WINDOW), QUOTA);
    assert!(fleet.admitted("/quota/allow", WINDOW) > 2 * QUOTA);
    assert_eq!(fleet.admitted("/quota/deny", WINDOW / 4), 0);
    admitted
}

/// Waits until the rate limit is correct again. Returns the time until then, and the number of admitted requests in
/// [`WINDOW`].
fn check_recovery(fleet: &Fleet) -> (Duration, usize) {
    let start = now();
    let limit = RATE_IN_WINDOW;
    loop {
        let time = since(start);
        let admitted = fleet.admitted("/rate/local", WINDOW);
        let is_correct = (limit * 9 / 10..=limit * 11 / 10).contains(&admitted);
        if is_correct && !fleet.all("/rate/deny", "503") {
            return (time, admitted);
        }
        assert!(time < RECOVERY_MAX, "the limit is wrong: {admitted} of {limit}");
    }
}

/// Asserts that quotas and limits of concurrency hold for the whole fleet.
fn check_quota_and_slots(fleet: &Fleet) {
    let admitted = fleet.admitted("/quota/local", WINDOW);
    assert!(admitted <= QUOTA + QUOTA / 10, "{admitted}");
    assert!(fleet.all("/quota/local", "429"));
    // Before its first answer about a counter, a gateway may use its share too. The answer arrives within this time.
    let first = fleet.occupied("/slots/local", 3, WINDOW);
    thread::sleep(WINDOW / 2);
    let held = first.len() + fleet.occupied("/slots/local", 2 * SLOTS, WINDOW).len();
    assert!((SLOTS - 1..=SLOTS).contains(&held), "{held}");
}

/// Requests of a route without limits take as long as with a store that works. Alternating pairs, because the speed of
/// the machine may change during the test.
#[test]
#[ignore = "needs redis-server"]
fn requests_without_limits_do_not_notice_the_fault() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start(&[]);
    let fleet = Fleet::start(&server.url());
    let load = fleet.load();
    let with_store = || {
        server.signal(Signal::CONT);
        until(|| !fleet.all("/rate/deny", "503"));
        fleet.median("/free")
    };
    let without_store = || {
        server.signal(Signal::STOP);
        until(|| fleet.all("/rate/deny", "503"));
        fleet.median("/free")
    };
    let mut pairs: Vec<_> = (0..PAIRS)
        .map(|pair| {
            let first = (pair % 2 == 0).then(&with_store);
            let without = without_store();
            (first.unwrap_or_else(&with_store), without)
        })
        .collect();
    server.signal(Signal::CONT);
    load.end();
    pairs.sort_by(|(a, b), (c, d)| {
        (b.as_secs_f64() / a.as_secs_f64()).total_cmp(&(d.as_secs_f64() / c.as_secs_f64()))
    });
    let (with, without) = pairs[PAIRS / 2];
    let ratio = without.as_secs_f64() / with.as_secs_f64();
    println!(
        "median with the store {with:?}, without it {without:?}, ratio {ratio:.3} (middle of {PAIRS} pairs)"
    );
    // The bound of 5 % holds on a quiet machine. Other programs can disturb this test.
    assert!(ratio < 1.25, "{pairs:?}");
}

#[test]
#[ignore = "needs redis-server"]
fn limits_survive_a_killed_store() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start(&[]);
    let fleet = Fleet::start(&server.url());
    let restart = || {
        server.restart();
        (&server, [0, 0])
    };
    check_fault("killed", &fleet, &server, || server.kill(), restart);
}

#[test]
#[ignore = "needs redis-server"]
fn limits_survive_a_stopped_store() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start(&[]);
    let fleet = Fleet::start(&server.url());
    let resume = || {
        server.signal(Signal::CONT);
        // The server now accepts the connections that waited during the fault.
        (&server, counts(&server))
    };
    check_fault("stopped (SIGSTOP)", &fleet, &server, || server.signal(Signal::STOP), resume);
}

#[test]
#[ignore = "needs redis-server"]
fn limits_survive_a_full_store() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let fleet = Fleet::start(&server.url());
    let set = |bytes: &str| drop(server.cli(&["config", "set", "maxmemory", bytes]));
    let enlarge = || {
        set("0");
        (&server, counts(&server))
    };
    check_fault("full (`maxmemory`)", &fleet, &server, || set("1"), enlarge);
}

/// A server that cannot write its snapshot refuses all operations that write (`MISCONF`). The gateways used to ignore
/// these refusals, so each of them admitted the whole limit.
#[test]
#[ignore = "needs redis-server"]
fn limits_survive_a_store_that_refuses_to_write() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start(&[]);
    let fleet = Fleet::start(&server.url());
    let set = |count: &str| drop(server.cli(&["config", "set", "min-replicas-to-write", count]));
    let accept = || {
        set("0");
        (&server, counts(&server))
    };
    check_fault("refuses to write", &fleet, &server, || set("1"), accept);
}

#[test]
#[ignore = "needs redis-server"]
fn limits_survive_a_failover() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let master = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", &format!("127.0.0.1 {}", master.port)]);
    let sentinel = RedisServer::sentinel(master.port);
    until_replicated(&sentinel, &replica);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let fleet = Fleet::start(&url);
    let promote = || {
        // Sentinel promotes a replica only if it lost its master less than ten times this time ago.
        sentinel.cli(&["sentinel", "set", "main", "down-after-milliseconds", "10000"]);
        until(|| replica.is_master());
        (&replica, counts(&replica))
    };
    check_fault("failover (Sentinel)", &fleet, &master, || master.kill(), promote);
}

#[test]
#[ignore = "needs redis-server"]
fn limits_survive_a_partition() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port);
    let fleet = Fleet::start(&format!("redis://127.0.0.1:{}", proxy.port));
    let heal = || {
        proxy.set_partitioned(false);
        (&server, counts(&server))
    };
    check_fault("partition", &fleet, &server, || proxy.set_partitioned(true), heal);
}
