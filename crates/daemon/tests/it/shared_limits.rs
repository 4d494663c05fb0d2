//! Limits of three replicas with one store, in this process.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use thruway_daemon::{ConfigSource, Daemon};
use thruway_net::Clock;
use thruway_server::ListenAddr;
use thruway_store::Store;

use crate::client::{TIMEOUT, address_of, end, file_answering, get};

/// The operator key of the fleet.
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// Starts three replicas with a policy.
fn fleet(policy: &str) -> Vec<Daemon> {
    let (store, directory) = (Store::memory(), tempfile::tempdir().unwrap());
    let config = directory.path().join("config.toml");
    fs::write(
        &config,
        file_answering(
            "a",
            &format!("policies = [\"p\"]\n[shared]\nkey = \"{KEY}\"\n[policies.p]\n{policy}"),
        ),
    )
    .unwrap();
    let replica = |_| Daemon::with_store(ConfigSource::file(&config), store.clone()).unwrap();
    (0..3).map(replica).collect()
}

/// Sends requests to all replicas in turn until all of them have refused for half a second. Returns the number of
/// admitted requests.
fn exhaust(addresses: &[ListenAddr]) -> usize {
    let now = || Clock::system().now_exact();
    let start = now();
    let (mut admitted, mut last) = (0, start);
    while now().saturating_sub(last) < Duration::from_millis(500) {
        assert!(now().saturating_sub(start) < TIMEOUT, "{admitted}");
        for address in addresses {
            if get(address, "/").0 == "200" {
                (admitted, last) = (admitted + 1, now());
            }
        }
    }
    admitted
}

fn addresses(replicas: &[Daemon]) -> Vec<ListenAddr> {
    replicas.iter().map(address_of).collect()
}

#[test]
fn rate_limit_holds_for_three_replicas_together() {
    let replicas = fleet("rate_limit = { requests = 60, per = \"24h\", by = \"all\", shared = true }");
    let admitted = exhaust(&addresses(&replicas));
    // Before its first answer from the store, a replica may admit a whole burst.
    assert!((60..=180).contains(&admitted), "{admitted}");
    assert_eq!(exhaust(&addresses(&replicas)), 0);
    replicas.into_iter().for_each(end);
}

#[test]
fn quota_holds_for_three_replicas_and_survives_a_replica() {
    // A month rarely ends during this test. If it does, the replicas admit the quota twice.
    let mut replicas = fleet("quota = { requests = 60, per = \"month\", by = \"address\", shared = true }");
    let admitted = exhaust(&addresses(&replicas));
    assert!((60..=120).contains(&admitted), "{admitted}");
    end(replicas.remove(0));
    assert_eq!(exhaust(&addresses(&replicas)), 0);
    replicas.into_iter().for_each(end);
}

#[test]
fn one_replica_can_use_the_whole_limit() {
    let replicas = fleet("rate_limit = { requests = 60, per = \"24h\", by = \"all\", shared = true }");
    assert_eq!(exhaust(&addresses(&replicas)[..1]), 60);
    replicas.into_iter().for_each(end);
}

/// Starts a server that accepts `HELLO`, and answers each other request with a reply without an end. It runs until the
/// end of the test process.
fn endless_store() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || reply_without_end(stream.unwrap()));
        }
    });
    address
}

/// Ends when the client closes the connection.
fn reply_without_end(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let is_hello = String::from_utf8_lossy(&buffer[..length]).contains("HELLO");
        let start = if is_hello { "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n" } else { "*100000\r\n" };
        if stream.write_all(start.as_bytes()).is_err() {
            return;
        }
        while !is_hello && stream.write_all(&b"$2\r\nab\r\n".repeat(1000)).is_ok() {}
    }
}

#[test]
fn replies_without_an_end_cause_the_declared_policy() {
    for (policy, expected) in [("deny", "503"), ("allow", "200"), ("local", "429")] {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config.toml");
        let limit = format!(
            "rate_limit = {{ requests = 1, per = \"24h\", by = \"all\", shared = true, on_store_failure = \"{policy}\" }}"
        );
        let shared = format!("[shared]\nstore = \"redis://{}\"\nkey = \"{KEY}\"", endless_store());
        let file = file_answering("a", &format!("policies = [\"p\"]\n{shared}\n[policies.p]\n{limit}"));
        fs::write(&config, file).unwrap();
        let replica = Daemon::from_file(&config).unwrap();
        let (address, start) = (address_of(&replica), Clock::system().now_exact());
        let mut in_a_row = 0;
        while in_a_row < 5 {
            in_a_row = if get(&address, "/").0 == expected { in_a_row + 1 } else { 0 };
            assert!(Clock::system().now_exact().saturating_sub(start) < TIMEOUT, "{policy}");
        }
        end(replica);
    }
}
