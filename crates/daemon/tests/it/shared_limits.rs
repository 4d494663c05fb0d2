//! Limits of three replicas with one store, in this process.

use std::fs;
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
