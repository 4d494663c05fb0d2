//! `thruway fleet status`: shows the fleet as the view **Fleet** of the dashboard does.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use serde::Deserialize;

use super::view::printable;
use super::{AdminClient, TopAccess, runtime};
use crate::config::Failure;

#[derive(Deserialize)]
struct Status {
    fleet: Option<Fleet>,
    shared_store: Option<SharedStore>,
}

#[derive(Deserialize)]
struct Fleet {
    replica: String,
    replicas: Vec<Replica>,
    forwarded: u64,
    received: u64,
    missing_owners: u64,
    limits: Option<Limits>,
    health: Health,
}

#[derive(Deserialize)]
struct Replica {
    id: String,
    name: String,
    /// Absent without a peer listener.
    address: Option<String>,
    state: String,
    sessions: u64,
    pending_calls: u64,
    tasks: u64,
    #[serde(default)]
    holds_certificate_lock: bool,
    version: String,
    started_at: String,
    heartbeat_age_ms: u64,
}

#[derive(Deserialize)]
struct SharedStore {
    kind: String,
    url: String,
    state: String,
    latency_p50_us: Option<u64>,
    latency_p99_us: Option<u64>,
    connections: u64,
    connections_max: u64,
    waiting_operations: u64,
    last_error: Option<String>,
    operations_total: Operations,
}

#[derive(Deserialize)]
struct Operations {
    succeeded: u64,
    rejected: u64,
    timed_out: u64,
    not_sent: u64,
}

#[derive(Deserialize)]
struct Limits {
    store_available: bool,
    round_trips_total: u64,
    failures_total: u64,
    policies: Vec<Limit>,
}

#[derive(Deserialize)]
struct Limit {
    policy: String,
    kind: String,
    on_store_failure: String,
    leased: u64,
    admitted_total: u64,
    refused_total: u64,
    without_store_total: u64,
}

#[derive(Deserialize)]
struct Health {
    enabled: bool,
    checks_skipped_total: u64,
}

/// Prints the fleet, as the service sees it whose admin listener has the URL `url`.
///
/// # Errors
/// Returns an error if the URL is invalid, if the root certificates cannot be read, if the service cannot be reached, or
/// if it belongs to no fleet.
pub fn fleet_status(url: &str, access: &TopAccess, output: &mut dyn Write) -> Result<(), Failure> {
    let admin = AdminClient::new(url, access)?;
    let status: Status = runtime()?.block_on(admin.read("/status"))?;
    let Some(fleet) = status.fleet else {
        let failure = Failure::new(format!("the service at `{url}` belongs to no fleet"));
        return Err(failure.with_hint("set `store` in `[shared]` to make it a replica"));
    };
    // A write error is ignored, because the reader may have closed the pipe.
    let _ = output.write_all(text_of(&fleet, status.shared_store.as_ref()).as_bytes());
    Ok(())
}

fn text_of(fleet: &Fleet, store: Option<&SharedStore>) -> String {
    let mut text = replicas(fleet);
    text += "\n";
    let Fleet { forwarded, received, missing_owners, .. } = fleet;
    add(
        &mut text,
        "requests",
        &format!("{forwarded} forwarded, {received} received, {missing_owners} whose owner was missing"),
    );
    if let Some(store) = store {
        add_store(&mut text, store);
    }
    if let Some(limits) = &fleet.limits {
        let Limits { round_trips_total: round_trips, failures_total: failures, .. } = limits;
        add(&mut text, "limits", &format!("{round_trips} round trips, {failures} failed operations"));
    }
    if fleet.health.enabled {
        add(&mut text, "health", &format!("{} checks skipped", fleet.health.checks_skipped_total));
    }
    if let Some(limits) = &fleet.limits {
        text += &policies(limits);
    }
    text
}

fn replicas(fleet: &Fleet) -> String {
    let head = ["NAME", "ID", "ADDRESS", "STATE", "SEEN", "SESSIONS", "CALLS", "TASKS", "STARTED", "VERSION"];
    let mut text = replica_line(head);
    for replica in &fleet.replicas {
        let numbers =
            [replica.sessions, replica.pending_calls, replica.tasks].map(|number| number.to_string());
        let [sessions, calls, tasks] = &numbers;
        let Replica { id, name, address, state, started_at, version, .. } = replica;
        let is_own = *id == fleet.replica;
        let age = Duration::from_millis(replica.heartbeat_age_ms);
        let seen = if is_own { "now".to_owned() } else { format!("{} s", age.as_secs()) };
        let own = if is_own { " (this replica)" } else { "" };
        let lock = if replica.holds_certificate_lock { ", orders certificates" } else { "" };
        let address = address.as_deref().unwrap_or("-");
        let version = format!("{version}{own}{lock}");
        text +=
            &replica_line([name, id, address, state, &seen, sessions, calls, tasks, started_at, &version]);
    }
    text
}

fn replica_line(columns: [&str; 10]) -> String {
    let [name, id, address, state, seen, sessions, calls, tasks, started, version] = columns.map(printable);
    let line = format!(
        "{name:<16} {id:<16} {address:<22} {state:<8} {seen:>5} {sessions:>8} {calls:>5} {tasks:>5} {started:<20} \
         {version}"
    );
    format!("{}\n", line.trim_end())
}

fn add_store(text: &mut String, store: &SharedStore) {
    let SharedStore { kind, url, state, connections, connections_max, waiting_operations, .. } = store;
    add(text, "store", &format!("{state}, {kind}, {url}"));
    if let (Some(p50), Some(p99)) = (store.latency_p50_us, store.latency_p99_us) {
        let milliseconds = |us: u64| format!("{}.{:02} ms", us / 1000, us % 1000 / 10);
        add(text, "latency", &format!("p50 {}, p99 {}", milliseconds(p50), milliseconds(p99)));
    }
    let Operations { succeeded, rejected, timed_out, not_sent } = &store.operations_total;
    let round_trips = succeeded + rejected;
    add(
        text,
        "operations",
        &format!(
            "{round_trips} round trips, {rejected} rejected, {timed_out} timed out, {not_sent} not sent"
        ),
    );
    add(
        text,
        "connections",
        &format!("{connections} of {connections_max}, {waiting_operations} operations waiting"),
    );
    if let Some(error) = &store.last_error {
        add(text, "last error", error);
    }
}

fn policies(limits: &Limits) -> String {
    if limits.policies.is_empty() {
        return String::new();
    }
    let line = |cells: [&str; 7]| {
        let [policy, kind, mode, leased, admitted, refused, without] = cells.map(printable);
        let line = format!(
            "{policy:<16} {kind:<12} {mode:<15} {leased:>10} {admitted:>12} {refused:>12} {without:>14}"
        );
        format!("{}\n", line.trim_end())
    };
    let head = line(["POLICY", "KIND", "MODE", "LEASED", "ADMITTED", "REFUSED", "WITHOUT STORE"]);
    let mut text = format!("\n{head}");
    for limit in &limits.policies {
        let Limit { policy, kind, on_store_failure, .. } = limit;
        let mode = if limits.store_available { "shared" } else { on_store_failure };
        let counts = [limit.leased, limit.admitted_total, limit.refused_total, limit.without_store_total];
        let [leased, admitted, refused, without] = counts.map(|count| count.to_string());
        text += &line([policy, kind, mode, &leased, &admitted, &refused, &without]);
    }
    text
}

fn add(text: &mut String, name: &str, value: &str) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "{name:<12} {}", printable(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{
        "fleet": {
            "replica": "1",
            "replicas": [
                {"id": "1", "name": "a", "address": "10.0.0.1:9300", "state": "live", "sessions": 3,
                 "pending_calls": 2, "tasks": 1, "holds_certificate_lock": true, "version": "0.1.0",
                 "started_at": "2026-01-01T00:00:00Z", "heartbeat_age_ms": 0},
                {"id": "2", "name": "b\u001b", "state": "draining", "sessions": 0, "pending_calls": 0, "tasks": 0,
                 "version": "0.1.0", "started_at": "2026-01-01T00:00:00Z", "heartbeat_age_ms": 1900}
            ],
            "forwarded": 4, "received": 5, "missing_owners": 0,
            "limits": {
                "store_available": false, "replicas": 2, "round_trips_total": 7, "operations_total": 9,
                "failures_total": 1,
                "policies": [
                    {"policy": "login", "kind": "rate_limit", "on_store_failure": "local (50 %)", "leased": 10,
                     "admitted_total": 20, "refused_total": 30, "without_store_total": 40}
                ]
            },
            "health": {"enabled": true, "sent_total": 1, "dropped_total": 0, "checks_skipped_total": 11}
        },
        "shared_store": {
            "replica": "a", "kind": "redis", "url": "redis://10.0.0.9:6379", "state": "disconnected",
            "latency_p50_us": 420, "latency_p99_us": 12340, "connections": 0, "connections_max": 4,
            "waiting_operations": 2, "reconnects_total": 1, "last_error": "refused\u001b[31m",
            "operations_total": {"succeeded": 100, "rejected": 1, "timed_out": 2, "not_sent": 3}
        }
    }"#;

    #[test]
    fn text_shows_the_replicas_the_store_and_the_limits() {
        let status: Status = serde_json::from_str(STATUS).unwrap();
        let text = text_of(&status.fleet.unwrap(), status.shared_store.as_ref());
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[1].starts_with("a                1                10.0.0.1:9300          live       now")
        );
        assert!(lines[1].ends_with("0.1.0 (this replica), orders certificates"), "{text}");
        assert!(lines[2].contains("-                      draining   1 s"), "{text}");
        for expected in [
            "requests     4 forwarded, 5 received, 0 whose owner was missing\n",
            "store        disconnected, redis, redis://10.0.0.9:6379\n",
            "latency      p50 0.42 ms, p99 12.34 ms\n",
            "operations   101 round trips, 1 rejected, 2 timed out, 3 not sent\n",
            "connections  0 of 4, 2 operations waiting\n",
            "limits       7 round trips, 1 failed operations\n",
            "health       11 checks skipped\n",
            "\nlogin            rate_limit   local (50 %)            10           20           30             40\n",
        ] {
            assert!(text.contains(expected), "{expected}{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
