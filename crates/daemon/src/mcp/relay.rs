//! Relays tool calls to the upstreams of MCP servers, without the MCP client of the endpoint.

use std::collections::BTreeMap;

use thruway_gateway::Forward;
use thruway_mcp_sdk::RelayedCall;
use thruway_message::{
    FieldLine, FieldLines, FieldName, FieldSection, FieldValue, Method, OriginForm, RequestHead,
    RequestTarget, StatusCode, Version,
};
use thruway_server::{Answer, FieldLinesBuf, Request, Response};

use super::members::{RunningUpstreams, host_of_requests};
use super::relayed_body::observed;
use crate::config::Config;
use crate::config::mcp::settings::McpTarget;

/// The relays of the MCP servers with an upstream, by the names of the servers.
pub(super) type Relays = BTreeMap<String, Relay>;

/// Sends tool calls to the MCP server behind an upstream.
pub(super) struct Relay {
    forward: Forward,
    /// The path of the MCP endpoint at the upstream.
    path: String,
    /// The header `Host`, and the headers in the config of the MCP server.
    headers: FieldLinesBuf,
}

/// Returns the relays for the servers of the endpoint with this name. The config was checked, so the upstreams
/// exist.
pub(super) fn relays(config: &Config, endpoint: &str, upstreams: &RunningUpstreams) -> Relays {
    let servers = config.mcp.endpoints[endpoint].servers.iter();
    let is_timed = config.admin.is_some();
    let relay = |name: &String| {
        let McpTarget::Upstream { upstream, path, headers, .. } = &config.mcp.servers.get(name)?.target
        else {
            return None;
        };
        let (upstream, config) = (upstreams[upstream].clone(), config.forwards.get(upstream));
        let host = host_of_requests(&upstream, config.map(|forward| &forward.host));
        let host = [("Host".to_owned(), host)];
        let mut lines = FieldLinesBuf::new();
        for (name, value) in host.iter().chain(headers) {
            // The check of the config has validated the headers.
            let _ = lines.append(name, value);
        }
        let forward = Forward::with_config(upstream, config.cloned().unwrap_or_default()).timed(is_timed);
        Some((name.clone(), Relay { forward, path: path.clone(), headers: lines }))
    };
    servers.filter_map(relay).collect()
}

impl Relay {
    /// Sends `call` instead of the body of `request`.
    pub(super) fn relay(&self, request: &mut Request<'_>, call: RelayedCall) -> Answer {
        let fields = self.fields(request.field_lines(), call.name());
        let head = RequestHead {
            method: Method::Post,
            target: RequestTarget::Origin(OriginForm::new(&self.path)),
            version: Version::Http11,
            field_lines: fields.lines(),
        };
        let answer = request.forward_with_content(&head, call.content(), &self.forward);
        answer.map(move |response| match unusable(&response) {
            None => observed(with_own_fields(response), call),
            Some((status, reason)) => Response::ok(JSON, call.failure(&reason)).with_status(status),
        })
    }

    /// Returns the headers for the server. Takes only headers of MCP and of tracing from the client, so that no
    /// credentials of the client reach the server.
    fn fields(&self, of_client: FieldLines<'_>, tool: &str) -> FieldSection {
        let bytes = of_client.bytes().len() + self.headers.bytes().len();
        let mut fields = FieldSection::with_capacity(bytes, of_client.len() + 4);
        for line in of_client.iter().filter(|line| is_relayed(line)) {
            fields.append(line);
        }
        let name = (FieldName::new(b"Mcp-Name"), FieldValue::new(tool.as_bytes()));
        // The library has checked the name.
        if let (Ok(name), Ok(value)) = name {
            fields.append(FieldLine { name, value });
        }
        for line in &self.headers {
            fields.append(line);
        }
        fields
    }
}

/// Returns `true` if the server gets this header of the client.
fn is_relayed(line: &FieldLine<'_>) -> bool {
    let name = line.name.as_bytes();
    let is_param =
        name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX));
    is_param || RELAYED.iter().any(|relayed| line.name.is(relayed))
}

/// Returns the status and the reason for the client if the response of the server is no JSON-RPC response. A
/// challenge of the server is no challenge for the client, because the endpoint has its own credentials. The
/// server cannot redirect the client, because the request of the client contains credentials and arguments.
fn unusable(response: &Response) -> Option<(StatusCode, String)> {
    let status = response.status();
    let is_refused = matches!(status.as_u16(), 300..=399 | 401 | 403 | 407);
    let is_message = has_media_type(response, b"application/json")
        || (status == StatusCode::OK && has_media_type(response, b"text/event-stream"));
    if is_message && !is_refused {
        return None;
    }
    let status_of_client = match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => status,
        _ => StatusCode::BAD_GATEWAY,
    };
    Some((status_of_client, format!("HTTP status {}", status.as_u16())))
}

pub(super) fn has_media_type(response: &Response, expected: &[u8]) -> bool {
    let media_type = response.field("Content-Type").map(|value| value.as_bytes()).unwrap_or_default();
    media_type.get(..expected.len()).is_some_and(|start| start.eq_ignore_ascii_case(expected))
}

/// Removes all headers that do not describe the body. The other headers of a server could change the state of the
/// client or of its browser, for example `Set-Cookie`, `Clear-Site-Data` and `Refresh`.
fn with_own_fields(mut response: Response) -> Response {
    let is_removed = |line: &FieldLine<'_>| !RETURNED.iter().any(|returned| line.name.is(returned));
    let removed: Vec<_> =
        response.field_lines().iter().filter(is_removed).map(|line| line.name.to_string()).collect();
    for name in removed {
        response.remove_field(&name);
    }
    response
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

/// The headers of a server that the client gets.
const RETURNED: [&str; 8] = [
    "Cache-Control",
    "Content-Encoding",
    "Content-Language",
    "Content-Type",
    "Date",
    "Retry-After",
    "Server",
    "X-Accel-Buffering",
];

/// The headers of a client that its server gets. The names of further headers begin with [`PARAM_PREFIX`].
const RELAYED: [&str; 7] = [
    "Accept",
    "Content-Type",
    "Mcp-Method",
    "MCP-Protocol-Version",
    "traceparent",
    "tracestate",
    "User-Agent",
];

const PARAM_PREFIX: &[u8] = b"Mcp-Param-";
