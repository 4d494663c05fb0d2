//! Serves `/status`: the running state as JSON.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;
use thruway_certificates::acme::CertificateStatus;
use thruway_certificates::ocsp::StapleStatus;
use thruway_gateway::{AdminState, ServerStatus, Upstream};
use thruway_net::Clock;
use thruway_server::{Request, Response, StatusCode};

use super::mcp::McpEndpointJson;
use super::state::ServiceState;
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
}

#[derive(Serialize)]
struct RouteStatus<'a> {
    requests: &'a str,
    action: &'a str,
    /// Absent if the route has no policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<&'a str>,
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
    servers: Vec<ServerJson>,
}

#[derive(Serialize)]
struct ServerJson {
    address: String,
    weight: u32,
    backup: bool,
    state: &'static str,
    requests_in_flight: usize,
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
        staples: admin.tls_manager.ocsp_statuses().into_iter().map(StapleJson::from).collect(),
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
        let policies = route.refusals.iter().map(|(policy, _)| policy.as_str()).collect();
        Self { requests: &route.requests, action: &route.action, policies }
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
        Self { name: upstream.name(), queued_requests: upstream.waiting(), servers: servers.collect() }
    }
}

impl From<ServerStatus> for ServerJson {
    fn from(status: ServerStatus) -> Self {
        Self {
            address: status.address.to_string(),
            weight: status.weight,
            backup: status.is_backup,
            state: status.state.as_str(),
            requests_in_flight: status.in_flight,
        }
    }
}

/// Sets the admin state of a server, and responds with the state of its upstream.
pub(super) fn set_admin_state(admin: &ServiceState, request: &Request<'_>) -> Response {
    let [name, server, action] =
        ["upstream", "server", "action"].map(|name| request.parameter(name).into_owned());
    let Some(admin_state) = parse(&action) else {
        return not_found(format!("unknown action `{action}`: expected `disable`, `drain` or `enable`\n"));
    };
    let running = admin.running_state.load();
    let Some(upstream) = running.upstream(&name) else {
        return not_found(format!("there is no upstream `{name}`\n"));
    };
    if !server.parse().is_ok_and(|address| upstream.set_admin_state(&address, admin_state)) {
        return not_found(format!("the upstream `{name}` has no server at `{server}`\n"));
    }
    tracing::info!(upstream = name, server, ?admin_state, "server admin state changed");
    Response::json(&UpstreamStatus::of(upstream))
}

fn parse(text: &str) -> Option<AdminState> {
    match text {
        "disable" => Some(AdminState::Disabled),
        "drain" => Some(AdminState::Draining),
        "enable" => Some(AdminState::Enabled),
        _ => None,
    }
}

fn not_found(reason: String) -> Response {
    Response::text(reason).with_status(StatusCode::NOT_FOUND)
}
