//! `POST /upstreams/NAME/servers/ADDRESS/disable`, `…/drain` and `…/enable`.

use thruway_gateway::AdminState;
use thruway_server::{Request, Response, StatusCode};

use super::state::ServiceState;
use super::status::UpstreamStatus;

/// Lets a server of an upstream have requests or not, and tells how the upstream is then.
pub(super) fn set_standing(admin: &ServiceState, request: &Request<'_>) -> Response {
    let [name, server, standing] =
        ["upstream", "server", "standing"].map(|name| request.parameter(name).into_owned());
    let Some(standing) = parse(&standing) else {
        return not_found(format!("`{standing}` is none of `disable`, `drain` and `enable`\n"));
    };
    let running = admin.present.load();
    let Some(upstream) = running.upstream(&name) else {
        return not_found(format!("there is no upstream `{name}`\n"));
    };
    if !server.parse().is_ok_and(|address| upstream.set_admin_state(&address, standing)) {
        return not_found(format!("the upstream `{name}` has no server at `{server}`\n"));
    }
    tracing::info!(upstream = name, server, ?standing, "a server was told how to stand");
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
