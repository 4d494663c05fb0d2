//! The admin listener. Operators use it to open the dashboard, to request health, status and metrics, to
//! reload the config, and to set the admin state of servers.
//!
//! The admin listener is a separate server with one worker, so that it responds even while the main server is
//! busy or shuts down.

mod state;
mod guard;
mod access;
mod login_limit;
mod audit;
mod actions;
mod status;
mod store;
mod fleet;
mod process;
mod metrics;
mod mcp;
mod exposition;
mod text_format;
mod otel_names;
mod negotiation;

// the dashboard
mod durations;
mod history;
mod sampler;
mod unread;
mod dashboard;
mod events;
mod page;

use std::sync::Arc;
use std::time::Duration;

use thruway_server::{
    Http2Limits, Request, Response, Router, RunningServer, Server, ServerError, StatusCode, Timeouts,
    with_state,
};

use crate::config::AdminConfig;
use access::Authenticated;
use dashboard::Dashboard;
use guard::Guarded;
pub(crate) use metrics::{collected_metrics, metrics};
pub(crate) use state::ServiceState;
pub(crate) use status::status;

/// Starts the admin listener.
///
/// # Errors
/// Returns an error if the address is in use.
pub(crate) fn start(state: &Arc<ServiceState>, config: &AdminConfig) -> Result<RunningServer, ServerError> {
    let dashboard = Dashboard::new(state);
    let router = Router::new()
        .get("/", page::answer)
        .get("/history", with_state(&dashboard, events::history))
        .get("/events", with_state(&dashboard, events::events))
        .get("/config", with_state(state, config_document))
        .get("/health", || "alive\n")
        .get("/ready", with_state(state, ready))
        .get("/status", with_state(state, status::answer))
        .get("/metrics", with_state(state, metrics::answer))
        .post("/reload", with_state(state, actions::reload))
        .post("/upstreams/{upstream}/servers/{server}/{action}", with_state(state, actions::set_admin_state));
    let timeouts = Timeouts { drain: DRAIN, ..Timeouts::default() };
    let http2 = Http2Limits { concurrent_streams: STREAMS_MAX, ..Http2Limits::default() };
    let authenticated = Authenticated::new(router, state.running_state.clone());
    let server = Server::new(Guarded::new(authenticated, config.is_remote()))
        .listen_on(config.to_listener())
        .workers(1)
        .connections_max(CONNECTIONS_MAX)
        .config(thruway_server::Config { timeouts, http2, ..thruway_server::Config::default() })
        .start()?;
    dashboard.start();
    Ok(server)
}

/// Responds with the running config and its findings, without secrets.
fn config_document(admin: &ServiceState, _: &Request<'_>) -> Response {
    Response::json(&admin.running_state.load().document).with_field("Cache-Control", "no-store")
}

/// Responds 200 if a load balancer should send requests to this process, otherwise 503 with the reason.
fn ready(admin: &ServiceState, _: &Request<'_>) -> Response {
    if admin.server.is_draining() {
        return not_ready("draining\n");
    }
    let running_state = admin.running_state.load();
    if let Some(upstream) = running_state.upstreams.iter().find(|upstream| !upstream.has_server()) {
        return not_ready(format!("the upstream `{}` has no server\n", upstream.name()));
    }
    match running_state.required.iter().find(|upstream| !upstream.has_healthy_server()) {
        Some(upstream) => not_ready(format!("no server of the upstream `{}` is healthy\n", upstream.name())),
        None => Response::text("ready\n"),
    }
}

fn not_ready(reason: impl Into<thruway_server::Content>) -> Response {
    Response::text(reason).with_status(StatusCode::SERVICE_UNAVAILABLE)
}

/// Maximum number of connections to the admin listener. This number is enough for monitoring, and leaves
/// file descriptors for clients of the main server.
const CONNECTIONS_MAX: usize = 64;

/// Maximum number of concurrent requests on an HTTP/2 connection. The dashboard needs four.
const STREAMS_MAX: u32 = 8;

/// Maximum duration of the graceful shutdown of the admin listener. A short time is enough, because all
/// requests except reloads complete immediately.
const DRAIN: Duration = Duration::from_secs(1);
