//! Requests that change the service: reloads, and admin states of servers.

use std::sync::Arc;

use thruway_gateway::AdminState;
use thruway_net::Clock;
use thruway_server::{OwnedRequest, Request, Response, StatusCode};

use super::audit;
use super::state::ServiceState;
use super::status::UpstreamStatus;
use crate::changes::ChangeKind;

/// Reloads the config on a separate thread, because a reload can block.
pub(super) async fn reload(admin: Arc<ServiceState>, _: OwnedRequest) -> Response {
    let reloader = admin.reloader.clone();
    match tokio::task::spawn_blocking(move || reloader.reload()).await {
        Ok(Ok(())) => Response::text("config reloaded\n"),
        Ok(Err(failure)) => {
            Response::text(failure.to_string()).with_status(StatusCode::UNPROCESSABLE_CONTENT)
        }
        Err(_) => Response::new(StatusCode::INTERNAL_SERVER_ERROR),
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
    let text = format!("upstream {name}, server {server}: {action} by {}", actor(request));
    admin.changes.add(Clock::system().time_of_day(), ChangeKind::AdminState, text);
    Response::json(&UpstreamStatus::of(upstream))
}

/// Returns the name of the authenticated user, if any, and the address of the client.
fn actor(request: &Request<'_>) -> String {
    let client = request.client();
    match audit::user(request) {
        Some(user) => format!("{user} ({client})"),
        None => client.to_string(),
    }
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
