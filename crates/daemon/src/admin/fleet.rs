//! The fleet in `/status` and `/metrics`.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use thruway_gateway::{
    HealthSharing, HealthSharingCounts, SharedLimitCounts, SharedLimitStatus, SharedLimits,
};
use thruway_net::Clock;
use thruway_telemetry::MetricKind as Kind;

use super::exposition::Exposition;
use crate::fleet::{FleetMembership, ForwardingCounts};
use crate::replicas::{KnownReplica, ReplicaRecord, ReplicaWork};
use crate::running_state::RunningConfig;

/// The fleet, as this replica sees it.
#[derive(Serialize)]
pub(super) struct FleetJson {
    /// The id of this replica.
    replica: String,
    /// All replicas. This replica is the first.
    replicas: Vec<ReplicaJson>,
    #[serde(flatten)]
    forwarding: ForwardingCounts,
    /// Absent for a store in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitsJson>,
    health: HealthJson,
}

/// The limits that all replicas share, as this replica applies them.
#[derive(Serialize)]
struct LimitsJson {
    /// `false` while each policy applies its `on_store_failure`.
    store_available: bool,
    /// Number of replicas among which this replica divides the limits.
    replicas: u32,
    round_trips_total: u64,
    operations_total: u64,
    /// Operations without an answer.
    failures_total: u64,
    /// The policies, in the order of their names.
    policies: Vec<LimitJson>,
}

#[derive(Serialize)]
struct LimitJson {
    policy: String,
    /// `rate_limit`, `quota` or `concurrency`.
    kind: &'static str,
    on_store_failure: String,
    /// Tokens or permits that the store has granted to this replica.
    leased: u64,
    admitted_total: u64,
    refused_total: u64,
    /// Requests that this replica has admitted or refused while the store failed.
    without_store_total: u64,
}

/// The exchange of health news.
#[derive(Serialize)]
struct HealthJson {
    enabled: bool,
    /// News for other replicas.
    sent_total: u64,
    /// News that were lost because too many news waited.
    dropped_total: u64,
    /// Health checks that this replica did not make, because it used the results of other replicas.
    checks_skipped_total: u64,
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
    pub(super) fn of(membership: &FleetMembership, running: &RunningConfig) -> Option<Self> {
        let replicas = membership.replicas()?;
        let now = Clock::system().now_exact();
        let age = |known: &KnownReplica| now.saturating_sub(known.seen_at);
        let own = ReplicaJson::of(replicas.id().to_string(), &replicas.own(), Duration::ZERO);
        let others = replicas.others();
        let others =
            others.iter().map(|(id, known)| ReplicaJson::of(id.to_string(), &known.record, age(known)));
        let forwarding = membership.forwarding();
        let replica = own.id.clone();
        let replicas = [own].into_iter().chain(others).collect();
        let limits = running.limits.as_ref().map(LimitsJson::from);
        let health = HealthJson::from(&*running.health);
        Some(Self { replica, replicas, forwarding, limits, health })
    }
}

impl From<&SharedLimits> for LimitsJson {
    fn from(limits: &SharedLimits) -> Self {
        let SharedLimitCounts { round_trips, operations, failures } = limits.counts();
        Self {
            store_available: limits.is_store_available(),
            replicas: limits.replicas(),
            round_trips_total: round_trips,
            operations_total: operations,
            failures_total: failures,
            policies: limits.statuses().into_iter().map(LimitJson::from).collect(),
        }
    }
}

impl From<SharedLimitStatus> for LimitJson {
    fn from(status: SharedLimitStatus) -> Self {
        Self {
            policy: status.policy.to_string(),
            kind: status.kind,
            on_store_failure: status.on_store_failure.to_string(),
            leased: status.leased,
            admitted_total: status.admitted,
            refused_total: status.refused,
            without_store_total: status.without_store,
        }
    }
}

impl From<&HealthSharing> for HealthJson {
    fn from(sharing: &HealthSharing) -> Self {
        let HealthSharingCounts { sent, dropped, skipped_checks } = sharing.counts();
        Self {
            enabled: sharing.is_enabled(),
            sent_total: sent,
            dropped_total: dropped,
            checks_skipped_total: skipped_checks,
        }
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
pub(super) fn write_fleet(
    exposition: &mut Exposition,
    membership: &FleetMembership,
    running: &RunningConfig,
) {
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
    let counts = membership.forwarding();
    let help = "MCP requests for the state of another replica. Outcome `forwarded`: the other replica has answered; \
                `received`: this replica has answered for another; `missing_owner`: the owner did not answer.";
    let mut family = exposition.family("thruway_fleet_requests_total", Kind::Counter, help);
    family.sample(&[("outcome", "forwarded")], counts.forwarded);
    family.sample(&[("outcome", "received")], counts.received);
    family.sample(&[("outcome", "missing_owner")], counts.missing_owners);
    let help = "Operations on the store that failed for durable state. Kind `task` or `event`.";
    let mut family = exposition.family("thruway_fleet_durable_failures_total", Kind::Counter, help);
    family.sample(&[("kind", "task")], counts.durable_task_failures);
    family.sample(&[("kind", "event")], counts.durable_event_failures);
    if let Some(limits) = &running.limits {
        write_limits(exposition, limits);
    }
    write_health(exposition, &running.health);
}

/// Writes the shared limits. Their only label with a value of the config is the name of the policy.
fn write_limits(exposition: &mut Exposition, limits: &SharedLimits) {
    let SharedLimitCounts { round_trips, operations, failures } = limits.counts();
    let mut write = |name, kind, help, value: u64| exposition.family(name, kind, help).sample(&[], value);
    let help =
        "1 if the last message for shared limits had an answer, 0 while policies apply `on_store_failure`.";
    let is_available = u64::from(limits.is_store_available());
    write("thruway_shared_limits_store_available", Kind::Gauge, help, is_available);
    let help = "Round trips to the store for shared limits.";
    write("thruway_shared_limits_round_trips_total", Kind::Counter, help, round_trips);
    let help = "Operations on the store for shared limits.";
    write("thruway_shared_limits_operations_total", Kind::Counter, help, operations);
    let help = "Operations on the store for shared limits without an answer.";
    write("thruway_shared_limits_failures_total", Kind::Counter, help, failures);
    let statuses = limits.statuses();
    let help = "Tokens or permits that the store has granted to this replica.";
    let mut family = exposition.family("thruway_shared_limit_leased", Kind::Gauge, help);
    for status in &statuses {
        family.sample(&[("policy", &status.policy)], status.leased);
    }
    let help = "Requests that a shared limit has decided about. Outcome `admitted` or `refused`.";
    let mut family = exposition.family("thruway_shared_limit_requests_total", Kind::Counter, help);
    for status in &statuses {
        family.sample(&[("policy", &status.policy), ("outcome", "admitted")], status.admitted);
        family.sample(&[("policy", &status.policy), ("outcome", "refused")], status.refused);
    }
    let help = "Requests that a shared limit has decided about while the store failed.";
    let mut family = exposition.family("thruway_shared_limit_without_store_total", Kind::Counter, help);
    for status in &statuses {
        family.sample(&[("policy", &status.policy)], status.without_store);
    }
}

/// Writes the exchange of health news, if it is enabled.
fn write_health(exposition: &mut Exposition, sharing: &HealthSharing) {
    if !sharing.is_enabled() {
        return;
    }
    let HealthSharingCounts { sent, dropped, skipped_checks } = sharing.counts();
    let help = "Health checks that this replica did not make, because it used the results of other replicas.";
    let mut family = exposition.family("thruway_shared_health_skipped_checks_total", Kind::Counter, help);
    family.sample(&[], skipped_checks);
    let help = "News about the health of servers for other replicas. Outcome `sent`, or `dropped` if too many news \
                waited for the store.";
    let mut family = exposition.family("thruway_shared_health_news_total", Kind::Counter, help);
    family.sample(&[("outcome", "sent")], sent);
    family.sample(&[("outcome", "dropped")], dropped);
}

/// The last second of the year 9999, in seconds since 1970.
const YEAR_9999: u64 = 253_402_300_799;
