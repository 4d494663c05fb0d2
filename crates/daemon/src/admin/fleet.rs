//! The fleet in `/status` and `/metrics`.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use thruway_net::Clock;
use thruway_telemetry::MetricKind as Kind;

use super::exposition::Exposition;
use crate::fleet::{FleetMembership, ForwardingCounts};
use crate::replicas::{KnownReplica, ReplicaRecord, ReplicaWork};

/// The fleet, as this replica sees it.
#[derive(Serialize)]
pub(super) struct FleetJson {
    /// The id of this replica.
    replica: String,
    /// All replicas. This replica is the first.
    replicas: Vec<ReplicaJson>,
    /// Number of requests that other replicas have answered for this replica.
    forwarded: u64,
    /// Number of requests that this replica has answered for other replicas.
    received: u64,
    /// Number of requests whose owner was missing.
    missing_owners: u64,
}

/// A replica of the fleet.
#[derive(Serialize)]
struct ReplicaJson {
    id: String,
    name: String,
    /// The address of the peer listener. Absent without a peer listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// `live` or `draining`.
    state: &'static str,
    /// MCP sessions of legacy clients.
    sessions: usize,
    /// MCP calls that wait for an answer of the client.
    pending_calls: usize,
    /// MCP tasks.
    tasks: usize,
    /// Present only if the replica holds the lock for orders of certificates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    holds_certificate_lock: bool,
    version: String,
    started_at: String,
    /// Time since this replica read the newest record of the replica. Zero for this replica.
    heartbeat_age_ms: u128,
}

impl FleetJson {
    /// Returns `None` if this process belongs to no fleet.
    pub(super) fn of(membership: &FleetMembership) -> Option<Self> {
        let replicas = membership.replicas()?;
        let now = Clock::system().now_exact();
        let age = |known: &KnownReplica| now.saturating_sub(known.seen_at);
        let own = ReplicaJson::of(replicas.id().to_string(), &replicas.own(), Duration::ZERO);
        let others = replicas.others();
        let others =
            others.iter().map(|(id, known)| ReplicaJson::of(id.to_string(), &known.record, age(known)));
        let ForwardingCounts { forwarded, received, missing_owners } = membership.forwarding();
        let replica = own.id.clone();
        let replicas = [own].into_iter().chain(others).collect();
        Some(Self { replica, replicas, forwarded, received, missing_owners })
    }
}

impl ReplicaJson {
    fn of(id: String, record: &ReplicaRecord, age: Duration) -> Self {
        let ReplicaRecord { name, address, is_draining, version, started, beat: _, work } = record.clone();
        let ReplicaWork { sessions, pending_calls, tasks, holds_certificate_lock } = work;
        // A record can contain any number, but the format allows only some years.
        let started = Duration::from_secs(started.min(YEAR_9999));
        Self {
            id,
            name,
            address: address.map(|address| address.to_string()),
            state: if is_draining { "draining" } else { "live" },
            sessions,
            pending_calls,
            tasks,
            holds_certificate_lock,
            version,
            started_at: humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + started).to_string(),
            heartbeat_age_ms: age.as_millis(),
        }
    }
}

/// Writes the numbers of replicas and of forwarded requests, if this process belongs to a fleet.
pub(super) fn write_fleet(exposition: &mut Exposition, membership: &FleetMembership) {
    let Some(registry) = membership.replicas() else { return };
    let (own, others) = (registry.own(), registry.others());
    let draining = others.values().filter(|known| known.record.is_draining).count();
    let (draining, live) = (draining + usize::from(own.is_draining), others.len() + 1);
    let help = "Replicas of the fleet, as this replica sees them.";
    let mut family = exposition.family("thruway_fleet_replicas", Kind::Gauge, help);
    family.sample(&[("state", "live")], live - draining);
    family.sample(&[("state", "draining")], draining);
    let oldest = others.values().map(|known| known.seen_at).min();
    let age = oldest.map_or(Duration::ZERO, |oldest| Clock::system().now_exact().saturating_sub(oldest));
    let help = "Greatest age of the newest heartbeat of another replica.";
    exposition
        .family("thruway_fleet_heartbeat_age_seconds", Kind::Gauge, help)
        .sample(&[], age.as_secs_f64());
    let help = "MCP state that this replica owns. Kind `session`: a session of a legacy client; `pending_call`: a \
                call that waits for an answer of its client; `task`: a task of an MCP server.";
    let mut family = exposition.family("thruway_fleet_owned", Kind::Gauge, help);
    family.sample(&[("kind", "session")], own.work.sessions);
    family.sample(&[("kind", "pending_call")], own.work.pending_calls);
    family.sample(&[("kind", "task")], own.work.tasks);
    let help = "1 if this replica holds the lock for orders of certificates, otherwise 0.";
    let mut family = exposition.family("thruway_fleet_certificate_lock_held", Kind::Gauge, help);
    family.sample(&[], own.work.holds_certificate_lock);
    let ForwardingCounts { forwarded, received, missing_owners } = membership.forwarding();
    let help = "MCP requests for the state of another replica. Outcome `forwarded`: the other replica has answered; \
                `received`: this replica has answered for another; `missing_owner`: the owner did not answer.";
    let mut family = exposition.family("thruway_fleet_requests_total", Kind::Counter, help);
    family.sample(&[("outcome", "forwarded")], forwarded);
    family.sample(&[("outcome", "received")], received);
    family.sample(&[("outcome", "missing_owner")], missing_owners);
}

/// The last second of the year 9999, in seconds since 1970.
const YEAR_9999: u64 = 253_402_300_799;
