//! The shared store in `/status` and `/metrics`.

use serde::Serialize;
use thruway_store::{OperationCounts, StoreHealth, StoreState};
use thruway_telemetry::{HistogramPoint, MetricKind as Kind};

use super::exposition::Exposition;
use crate::live_store::LiveStore;

/// The shared store in `/status`.
#[derive(Serialize)]
pub(super) struct StoreJson<'a> {
    /// Name of this gateway in the fleet.
    replica: &'a str,
    /// `single`, `sentinel` or `cluster`.
    kind: &'static str,
    /// URL of the store, without credentials.
    url: String,
    /// `connected`, `connecting` or `disconnected`.
    state: &'static str,
    /// Smoothed latency of operations. Absent before the first operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<u128>,
    /// Median of the last 1,024 operations. Absent before the first operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p50_us: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p99_us: Option<u128>,
    /// Open connections for operations.
    connections: usize,
    connections_max: usize,
    /// Operations that wait for a response.
    waiting_operations: usize,
    reconnects_total: u64,
    /// Reason of the last failed connection. Absent without a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    operations_total: OperationsJson,
}

/// Numbers of operations by their outcome.
#[derive(Serialize)]
struct OperationsJson {
    succeeded: u64,
    rejected: u64,
    timed_out: u64,
    not_sent: u64,
}

impl<'a> StoreJson<'a> {
    /// Returns `None` for a store in memory.
    pub(super) fn of(store: &'a LiveStore) -> Option<Self> {
        let health = store.health()?;
        let StoreHealth { kind, address, state, latency, latency_percentiles, .. } = health;
        let StoreHealth { connections, connections_max, waiting, .. } = health;
        let StoreHealth { reconnects, last_error, operations, .. } = health;
        Some(Self {
            replica: store.replica(),
            kind,
            url: address,
            state: state.name(),
            latency_us: latency.map(|latency| latency.as_micros()),
            latency_p50_us: latency_percentiles.map(|latencies| latencies.p50.as_micros()),
            latency_p99_us: latency_percentiles.map(|latencies| latencies.p99.as_micros()),
            connections,
            connections_max,
            waiting_operations: waiting,
            reconnects_total: reconnects,
            last_error,
            operations_total: OperationsJson {
                succeeded: operations.succeeded,
                rejected: operations.rejected,
                timed_out: operations.timed_out,
                not_sent: operations.not_sent,
            },
        })
    }
}

/// Writes the state of the shared store, if there is one.
pub(super) fn write_store(exposition: &mut Exposition, store: &LiveStore) {
    let Some(health) = store.health() else { return };
    let StoreHealth { state, latency, reconnects, operations, .. } = health;
    let help = "1 if the shared store is connected, otherwise 0.";
    let is_connected = u64::from(state == StoreState::Connected);
    exposition.family("thruway_store_connected", Kind::Gauge, help).sample(&[], is_connected);
    if let Some(latency) = latency {
        let help = "Smoothed latency of operations of the shared store.";
        exposition
            .family("thruway_store_latency_seconds", Kind::Gauge, help)
            .sample(&[], latency.as_secs_f64());
    }
    let help = "Connections to the shared store after a lost connection.";
    exposition.family("thruway_store_reconnects_total", Kind::Counter, help).sample(&[], reconnects);
    let help = "Open connections to the shared store for operations.";
    exposition.family("thruway_store_connections", Kind::Gauge, help).sample(&[], health.connections);
    let help = "Operations that wait for a response of the shared store.";
    exposition.family("thruway_store_waiting_operations", Kind::Gauge, help).sample(&[], health.waiting);
    let help = "Duration of successful operations of the shared store.";
    let mut family = exposition.family("thruway_store_operation_duration_seconds", Kind::Histogram, help);
    let OperationCounts { latency_sum: sum, latency_buckets: buckets, .. } = &operations;
    let bounds = &OperationCounts::BOUNDS;
    family.histogram(&[], &HistogramPoint { bounds, buckets, sum: *sum, exemplars: &[] });
    let help = "Operations of the shared store. Outcome `rejected`: the store refused the operation; `timed_out`: \
                no response in time; `not_sent`: no connection, or too many waiting operations.";
    let mut family = exposition.family("thruway_store_operations_total", Kind::Counter, help);
    family.sample(&[("outcome", "succeeded")], operations.succeeded);
    family.sample(&[("outcome", "rejected")], operations.rejected);
    family.sample(&[("outcome", "timed_out")], operations.timed_out);
    family.sample(&[("outcome", "not_sent")], operations.not_sent);
}
