//! `/status`: what runs and how it is, as JSON.

use serde::Serialize;
use thruway_gateway::{ServerStatus, Upstream};
use thruway_net::Clock;
use thruway_server::{Request, Response};

use super::Admin;
use crate::present::RunningRoute;
use crate::streams::Listening;

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
}

#[derive(Serialize)]
struct RouteStatus<'a> {
    requests: &'a str,
    action: &'a str,
    /// Left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<&'a str>,
}

/// A listener whose connections are forwarded whatever they carry.
#[derive(Serialize)]
struct StreamsStatus<'a> {
    listener: String,
    upstream: &'a str,
    open: usize,
}

/// An upstream and its servers.
#[derive(Serialize)]
pub(super) struct UpstreamStatus<'a> {
    name: &'a str,
    waiting: usize,
    servers: Vec<ServerJson>,
}

#[derive(Serialize)]
struct ServerJson {
    address: String,
    weight: u32,
    backup: bool,
    state: &'static str,
    in_flight: usize,
}

pub(super) fn answer(admin: &Admin, _: &Request<'_>) -> Response {
    let running = admin.present.load();
    let loads = admin.server.loads();
    Response::json(&Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: Clock::system().now_exact().saturating_sub(admin.started).as_secs(),
        draining: admin.server.is_draining(),
        listeners: admin.live.addresses().iter().map(ToString::to_string).collect(),
        connections: loads.iter().map(|load| load.connections).sum(),
        connections_total: loads.iter().map(|load| load.connections_total).sum(),
        routes: running.routes.iter().map(RouteStatus::of).collect(),
        streams: admin.tcp_listeners(&running).map(StreamsStatus::of).collect(),
        upstreams: running.upstreams.iter().map(|upstream| UpstreamStatus::of(upstream)).collect(),
    })
}

impl<'a> RouteStatus<'a> {
    fn of(route: &'a RunningRoute) -> Self {
        let policies = route.refusals.iter().map(|(policy, _)| policy.as_str()).collect();
        Self { requests: &route.requests, action: &route.action, policies }
    }
}

impl<'a> StreamsStatus<'a> {
    fn of((listener, listening): (String, &'a Listening)) -> Self {
        Self { listener, upstream: &listening.upstream, open: listening.forward.counts().open }
    }
}

impl<'a> UpstreamStatus<'a> {
    pub(super) fn of(upstream: &'a Upstream) -> Self {
        let servers = upstream.server_statuses().into_iter().map(ServerJson::from);
        Self { name: upstream.name(), waiting: upstream.waiting(), servers: servers.collect() }
    }
}

impl From<ServerStatus> for ServerJson {
    fn from(status: ServerStatus) -> Self {
        Self {
            address: status.address.to_string(),
            weight: status.weight,
            backup: status.is_backup,
            state: status.state.as_str(),
            in_flight: status.in_flight,
        }
    }
}
