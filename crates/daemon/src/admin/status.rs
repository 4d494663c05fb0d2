//! Serves `/status`: the running state as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;
use thruway_certificates::acme::CertificateStatus;
use thruway_certificates::ocsp::StapleStatus;
use thruway_gateway::{RequestDurations, RouteMeter, ServerStatus, StateChange, Upstream};
use thruway_net::Clock;
use thruway_server::{Request, Response};

use super::durations::{Buckets, sum_of_buckets};
use super::fleet::FleetJson;
use super::mcp::McpEndpointJson;
use super::state::ServiceState;
use super::store::StoreJson;
use crate::changes::Change;
use crate::running_state::RunningRoute;
use crate::streams::Listening;
use crate::tls::ListenerCertificate;

#[derive(Serialize)]
struct Status<'a> {
    version: &'static str,
    uptime_seconds: u64,
    draining: bool,
    listeners: Vec<String>,
    connections: usize,
    connections_total: u64,
    /// Requests that matched no route.
    unrouted_requests_total: u64,
    /// Upper bounds of all `duration_buckets`, in microseconds. The last bucket has no bound.
    duration_bounds_us: Vec<u128>,
    routes: Vec<RouteStatus<'a>>,
    streams: Vec<StreamsStatus<'a>>,
    upstreams: Vec<UpstreamStatus<'a>>,
    /// Absent if the config has no MCP endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mcp_endpoints: Vec<McpEndpointJson<'a>>,
    /// Absent if no listener has TLS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<CertificateJson>,
    /// Absent if the config has no ACME certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    orders: Vec<OrderJson>,
    /// Absent if no listener has OCSP stapling.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    staples: Vec<StapleJson>,
    /// Absent if the config has no shared store.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_store: Option<StoreJson<'a>>,
    /// Absent if the process belongs to no fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<FleetJson>,
    /// The last 100 changes, the newest first.
    changes: Vec<ChangeJson>,
}

#[derive(Serialize)]
struct RouteStatus<'a> {
    /// Absent if the operator has given no name to the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    requests: &'a str,
    action: &'a str,
    /// Absent if the route has no policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<&'a str>,
    requests_total: u64,
    /// Requests that ended with a 5xx status.
    errors_total: u64,
    /// Requests that a policy refused.
    refused_total: u64,
    /// Number of requests for each range of durations.
    duration_buckets: Buckets,
}

/// A listener that forwards TCP connections.
#[derive(Serialize)]
struct StreamsStatus<'a> {
    listener: String,
    upstream: &'a str,
    open_streams: usize,
}

/// An upstream and its servers.
#[derive(Serialize)]
pub(super) struct UpstreamStatus<'a> {
    name: &'a str,
    queued_requests: usize,
    queued_requests_max: usize,
    open_connections: usize,
    idle_connections: usize,
    retries_total: u64,
    /// Requests that got no server, for each error type of RFC 9209.
    failures: BTreeMap<&'static str, u64>,
    /// Number of responses for each range of durations, including queue and retries.
    duration_buckets: Buckets,
    servers: Vec<ServerJson>,
}

#[derive(Serialize)]
struct ServerJson {
    address: String,
    weight: u32,
    backup: bool,
    state: &'static str,
    /// Share of its normal traffic in percent. Absent without a slow start in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_start_percent: Option<u64>,
    /// Time of the last change of the state. Absent if the state has never changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<String>,
    /// Reason of the last change of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    requests_in_flight: usize,
    requests_total: u64,
    /// Responses with a 5xx status.
    errors_total: u64,
    /// Failed requests, for each error type of RFC 9209.
    failures: BTreeMap<&'static str, u64>,
    duration_buckets: Buckets,
}

/// A change of the service.
#[derive(Serialize)]
struct ChangeJson {
    at: String,
    kind: &'static str,
    text: String,
}

/// A certificate of a listener.
#[derive(Serialize)]
struct CertificateJson {
    listener: String,
    file: PathBuf,
    names: Vec<String>,
    not_after: String,
}

/// A certificate that Thruway obtains with ACME.
#[derive(Serialize)]
struct OrderJson {
    names: Vec<String>,
    /// Absent until the first certificate is issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    next_at: String,
    consecutive_failures: u32,
    /// Absent if the last attempt succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// OCSP state of a certificate.
#[derive(Serialize)]
struct StapleJson {
    file: PathBuf,
    /// Absent if Thruway sends clients no OCSP response for this certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_update: Option<String>,
    consecutive_failures: u32,
    /// Absent if the last attempt succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

pub(super) fn answer(admin: &ServiceState, _: &Request<'_>) -> Response {
    with_status(admin, |status| Response::json(&status))
}

/// Returns the JSON document of `GET /status` as text.
pub(super) fn text(admin: &ServiceState) -> String {
    // The conversion to JSON cannot fail, because all members are numbers, strings or lists.
    with_status(admin, |status| serde_json::to_string(&status).unwrap_or_default())
}

/// Returns the JSON document of `GET /status`.
pub(crate) fn status(admin: &ServiceState) -> serde_json::Value {
    // The conversion to JSON cannot fail, because all members are numbers, strings or lists.
    with_status(admin, |status| serde_json::to_value(status).unwrap_or_default())
}

fn with_status<T>(admin: &ServiceState, use_status: impl FnOnce(Status<'_>) -> T) -> T {
    let running = admin.running_state.load();
    let loads = admin.server.loads();
    use_status(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: Clock::system().now_exact().saturating_sub(admin.started).as_secs(),
        draining: admin.server.is_draining(),
        listeners: admin.live.addresses().iter().map(ToString::to_string).collect(),
        connections: loads.iter().map(|load| load.connections).sum(),
        connections_total: loads.iter().map(|load| load.connections_total).sum(),
        unrouted_requests_total: running.unrouted.get(),
        duration_bounds_us: RouteMeter::BOUNDS.iter().map(std::time::Duration::as_micros).collect(),
        routes: running.routes.iter().map(RouteStatus::of).collect(),
        streams: admin.tcp_listeners(&running).map(StreamsStatus::of).collect(),
        upstreams: running.upstreams.iter().map(|upstream| UpstreamStatus::of(upstream)).collect(),
        mcp_endpoints: McpEndpointJson::all(&running),
        certificates: admin
            .tls_manager
            .listener_certificates()
            .into_iter()
            .map(CertificateJson::from)
            .collect(),
        orders: admin.tls_manager.acme_statuses().into_iter().map(OrderJson::from).collect(),
        shared_store: StoreJson::of(&running.store),
        staples: admin.tls_manager.ocsp_statuses().into_iter().map(StapleJson::from).collect(),
        fleet: FleetJson::of(admin.fleet(), &running),
        changes: admin.changes.newest_first().into_iter().map(ChangeJson::from).collect(),
    })
}

impl From<ListenerCertificate> for CertificateJson {
    fn from(ListenerCertificate { listener, certificate }: ListenerCertificate) -> Self {
        Self {
            listener: listener.to_string(),
            file: certificate.path,
            names: certificate.contents.names,
            not_after: date(certificate.contents.validity.not_after),
        }
    }
}

impl From<CertificateStatus> for OrderJson {
    fn from(status: CertificateStatus) -> Self {
        Self {
            names: status.names.iter().map(str::to_owned).collect(),
            not_after: status.not_after.map(date),
            next_at: date(status.next_at),
            consecutive_failures: status.failures,
            last_error: status.last_error,
        }
    }
}

impl From<StapleStatus> for StapleJson {
    fn from(status: StapleStatus) -> Self {
        Self {
            file: status.path,
            next_update: status.next_update.map(date),
            consecutive_failures: status.failures,
            last_error: status.last_error.map(|error| error.to_string()),
        }
    }
}

/// Formats `time` as a date and time of RFC 3339.
fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

impl<'a> RouteStatus<'a> {
    fn of(route: &'a RunningRoute) -> Self {
        let durations = route.meter.as_ref().map(|meter| meter.durations()).unwrap_or_default();
        let status = |of: &thruway_gateway::ServerAttributes| of.status.as_u16();
        Self {
            name: route.name.as_deref(),
            requests: &route.requests,
            action: &route.action,
            policies: route.refusals.iter().map(|(policy, _)| policy.as_str()).collect(),
            requests_total: durations.iter().map(RequestDurations::count).sum(),
            errors_total: errors(&durations, status),
            refused_total: route.refusals.iter().map(|(_, count)| count.get()).sum(),
            duration_buckets: sum_of_buckets(&durations),
        }
    }
}

impl<'a> StreamsStatus<'a> {
    fn of((listener, listening): (String, &'a Listening)) -> Self {
        Self { listener, upstream: &listening.upstream, open_streams: listening.forward.counts().open }
    }
}

impl<'a> UpstreamStatus<'a> {
    pub(super) fn of(upstream: &'a Upstream) -> Self {
        let servers = upstream.server_statuses().into_iter().map(ServerJson::from);
        Self {
            name: upstream.name(),
            queued_requests: upstream.waiting(),
            queued_requests_max: upstream.waiting_max(),
            open_connections: upstream.open_connections(),
            idle_connections: upstream.idle_connections(),
            retries_total: upstream.retries(),
            failures: upstream.failures().into_iter().collect(),
            duration_buckets: upstream.response_counts().buckets,
            servers: servers.collect(),
        }
    }
}

impl From<ServerStatus> for ServerJson {
    fn from(status: ServerStatus) -> Self {
        Self {
            address: status.address.to_string(),
            weight: status.weight,
            backup: status.is_backup,
            state: status.state.as_str(),
            slow_start_percent: status.slow_start_percent,
            changed_at: status.changed.as_ref().map(|changed| date(time_of(changed, &Clock::system()))),
            reason: status.changed.map(|changed| changed.reason),
            requests_in_flight: status.in_flight,
            requests_total: status.connections_opened + status.connections_reused,
            errors_total: errors(&status.durations, |of| of.status.as_u16()),
            failures: status.failures.into_iter().collect(),
            duration_buckets: sum_of_buckets(&status.durations),
        }
    }
}

impl From<Change> for ChangeJson {
    fn from(change: Change) -> Self {
        Self { at: date(change.at), kind: change.kind.as_str(), text: change.text }
    }
}

/// Returns the number of requests with a 5xx status.
fn errors<K>(durations: &[RequestDurations<K>], status: impl Fn(&K) -> u16) -> u64 {
    let is_error = |of: &&RequestDurations<K>| {
        of.attributes.as_ref().is_some_and(|attributes| (500..600).contains(&status(attributes)))
    };
    durations.iter().filter(is_error).map(RequestDurations::count).sum()
}

/// Returns the system time of a change, whose time is on the process clock.
fn time_of(changed: &StateChange, clock: &Clock) -> SystemTime {
    clock.time_of_day() - clock.now().saturating_sub(changed.at)
}
