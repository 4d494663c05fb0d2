//! The fleet in the status, in the metrics, and in `thruway fleet status`.

use serde_json::{Value, json};
use thruway_daemon::{Daemon, TopAccess, fleet_status};
use thruway_net::Clock;

use super::scene::{Fleet, Message};
use crate::client::TIMEOUT;

/// Waits until `is_there` returns `true` for the status of a replica.
fn wait_for(daemon: &Daemon, is_there: impl Fn(&Value) -> bool) -> Value {
    let started = Clock::system().now_exact();
    loop {
        let status = daemon.handle().status();
        if is_there(&status) {
            return status;
        }
        assert!(Clock::system().now_exact().saturating_sub(started) < TIMEOUT, "{status}");
        std::thread::yield_now();
    }
}

fn replica<'s>(status: &'s Value, name: &str) -> Option<&'s Value> {
    status["fleet"]["replicas"].as_array()?.iter().find(|replica| replica["name"] == name)
}

#[test]
fn each_replica_shows_the_sessions_and_limits_of_the_fleet() {
    let policy =
        "[policies.all]\nrate_limit = { requests = 1000, per = \"1s\", by = \"all\", shared = true }\n";
    let fleet = Fleet::start_with(policy, "policies = [\"all\"]\n");
    let session = fleet.begin_session(1);
    let ping = Message::legacy(&session, "ping", &json!({}));
    assert_eq!(fleet.request(0, &ping).0, "200");
    // The heartbeat of replica 1 publishes the session.
    let status = wait_for(fleet.daemon(0), |status| {
        let is_everybody = status["fleet"]["limits"]["replicas"] == 3;
        is_everybody && replica(status, "b").is_some_and(|replica| replica["sessions"] == 1)
    });
    let other = replica(&status, "b").unwrap();
    assert_eq!((&other["pending_calls"], &other["tasks"]), (&json!(0), &json!(0)));
    assert!(other["heartbeat_age_ms"].as_u64().unwrap() < 60_000, "{other}");
    assert!(other["started_at"].as_str().unwrap().starts_with("20"), "{other}");
    assert_eq!(status["fleet"]["replicas"][0]["name"], "a", "the own replica is the first");
    assert_eq!(status["fleet"]["forwarded"], 1);
    let limit = &status["fleet"]["limits"]["policies"][0];
    assert_eq!((&limit["policy"], &limit["kind"]), (&json!("all"), &json!("rate_limit")));
    assert_eq!((&limit["admitted_total"], &limit["refused_total"]), (&json!(1), &json!(0)));
    let metrics = fleet.daemon(0).handle().metrics();
    for line in [
        "thruway_fleet_replicas{state=\"live\"} 3",
        "thruway_fleet_owned{kind=\"session\"} 0",
        "thruway_fleet_requests_total{outcome=\"forwarded\"} 1",
        "thruway_shared_limit_requests_total{policy=\"all\",outcome=\"admitted\"} 1",
        "thruway_shared_limits_store_available 1",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}\n{metrics}");
    }
    let url = format!("http://{}", fleet.daemon(0).admin_addresses()[0]);
    let mut printed = Vec::new();
    fleet_status(&url, &TopAccess::default(), &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    for part in
        ["(this replica)\n", "1 forwarded, 0 received", "store        connected, memory", "rate_limit"]
    {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
    fleet.end();
}

#[test]
fn replica_that_leaves_is_not_in_the_list() {
    let mut fleet = Fleet::start();
    wait_for(fleet.daemon(0), |status| replica(status, "c").is_some());
    fleet.end_replica(2);
    let status = wait_for(fleet.daemon(0), |status| replica(status, "c").is_none());
    assert!(replica(&status, "b").is_some());
    let metrics = fleet.daemon(0).handle().metrics();
    assert!(metrics.contains("\nthruway_fleet_replicas{state=\"live\"} 2\n"), "{metrics}");
    fleet.end();
}
