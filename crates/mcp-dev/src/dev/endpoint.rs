//! The HTTP endpoints in front of the server. They stay the same while the server behind them restarts. Web
//! pages of other origins cannot use them.

use std::net::IpAddr;

use thruway_mcp_sdk::json_rpc::{self, Error, Id, Message, write_error};
use thruway_server::{Answer, FieldLinesBuf, Handler, Request, Response, StatusCode};

use super::served::{Served, ServerState, Version};

/// An HTTP endpoint in front of the current version.
pub(super) struct DevEndpoint {
    pub(super) served: Served,
    pub(super) select: fn(&Version) -> &dyn Handler,
}

impl Handler for DevEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if !is_from_this_origin(request) {
            let text = "web pages of other origins must not use the server\n";
            return Answer::Now(Response::text(text).with_status(StatusCode::FORBIDDEN));
        }
        match self.served.serving() {
            Ok(version) => request.forward_to((self.select)(&version)),
            Err(state) => Answer::Now(unavailable(request, &state)),
        }
    }
}

/// Returns the response to a request that no server can answer. It contains the id of the JSON-RPC request,
/// if the request has arrived completely.
fn unavailable(request: &Request<'_>, state: &ServerState) -> Response {
    let content = if request.has_whole_content() { request.content() } else { &[] };
    let id: Option<Id<'_>> = match json_rpc::parse(content) {
        Ok(Message::Request(request)) => Some(request.id),
        _ => None,
    };
    let mut message = Vec::new();
    write_error(&mut message, id.as_ref(), &Error::internal(state.reason()));
    Response::ok(JSON, message)
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .with_field("Retry-After", RETRY_AFTER_SECONDS)
}

/// Returns `true` if `Host` names this machine, and if no page of another origin has sent the request. A page
/// cannot forge these headers.
pub(super) fn is_from_this_origin(request: &Request<'_>) -> bool {
    let head = request.head();
    let Some(authority) = head.authority() else { return false };
    let is_local = names_this_machine(authority.host());
    // A value that is not UTF-8 counts as a value of another origin.
    let field = |name| request.field(name).map(|value| value.as_str().unwrap_or("invalid"));
    let own = format!("http://{}", authority.as_str());
    is_local
        && field("origin").is_none_or(|origin| origin.eq_ignore_ascii_case(&own))
        && matches!(field("sec-fetch-site"), None | Some("same-origin" | "none"))
}

/// Returns `true` for `localhost` and for loopback addresses. Other names are refused, because a name server
/// can let them lead to this machine.
fn names_this_machine(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .map_or_else(|| host.parse().map(IpAddr::V4), |address| address.parse().map(IpAddr::V6));
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

/// Time after which a client may try again, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";
