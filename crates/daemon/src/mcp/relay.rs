//! Relays tool calls to the upstreams of MCP servers, without the MCP client of the endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use thruway_gateway::Forward;
use thruway_mcp_sdk::backend::json_message;
use thruway_mcp_sdk::{AuditOutcome, McpEndpoint, RelayedCall};
use thruway_message::{
    FieldLine, FieldLines, FieldName, FieldSection, FieldValue, Method, OriginForm, RequestHead,
    RequestTarget, StatusCode, Version,
};
use thruway_net::Clock;
use thruway_server::{Answer, FieldLinesBuf, Request, Response};
use thruway_telemetry::{McpAnswered, McpDetail, McpFailure, McpProgress, StepDetail};

use super::members::{RunningUpstreams, host_of_requests};
use super::relayed_body::{first_bytes, has_media_type, observed};
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
    let is_timed = config.is_measured();
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
    /// Sends `call` instead of the body of `request`. If the server refuses the token of the call, `server` handles the
    /// request: it obtains another token.
    pub(super) fn relay(&self, request: &mut Request<'_>, call: RelayedCall, server: &McpEndpoint) -> Answer {
        let again = call.authorization().and_then(|_| request.copy_whole());
        let again = again.map(|request| (request, server.clone()));
        let call = traced(request, call);
        let answer = self.send(request, &call);
        Answer::later(async move {
            let response = response_of(answer).await;
            if is_usable(&response) {
                return observed(with_own_fields(response), call);
            }
            // Boxed to keep the futures of other calls small.
            match again.filter(|_| response.status() == StatusCode::UNAUTHORIZED) {
                Some((request, server)) => {
                    call.refuse_token();
                    Box::pin(response_of(request.forward_to(&server))).await
                }
                None => Box::pin(failed(response, call)).await,
            }
        })
    }

    fn send(&self, request: &mut Request<'_>, call: &RelayedCall) -> Answer {
        let fields = self.fields(request.field_lines(), call);
        let head = RequestHead {
            method: Method::Post,
            target: RequestTarget::Origin(OriginForm::new(&self.path)),
            version: Version::Http11,
            field_lines: fields.lines(),
        };
        request.forward_with_content(&head, call.content(), &self.forward)
    }

    /// Returns the headers for the server. Takes only headers of MCP and of tracing from the client, so that no
    /// credentials of the client reach the server.
    fn fields(&self, of_client: FieldLines<'_>, call: &RelayedCall) -> FieldSection {
        let bytes = of_client.bytes().len() + self.headers.bytes().len();
        let mut fields = FieldSection::with_capacity(bytes, of_client.len() + 5);
        for line in of_client.iter().filter(|line| is_relayed(line)) {
            fields.append(line);
        }
        // The library has checked the name and the token.
        let of_call = [("Mcp-Name", Some(call.name())), ("Authorization", call.authorization())];
        for (name, value) in of_call {
            let value = value.map(|value| FieldValue::new(value.as_bytes()));
            if let (Ok(name), Some(Ok(value))) = (FieldName::new(name.as_bytes()), value) {
                fields.append(FieldLine { name, value });
            }
        }
        let is_replaced =
            |line: &FieldLine<'_>| call.authorization().is_some() && line.name.is("Authorization");
        for line in self.headers.iter().filter(|line| !is_replaced(line)) {
            fields.append(line);
        }
        fields
    }
}

async fn response_of(answer: Answer) -> Response {
    match answer {
        Answer::Now(response) => response,
        Answer::Later(later) => later.await,
    }
}

/// Begins the span of a tool call, which ends with the outcome of the call. The name of the tool is the name that the
/// client uses.
fn traced(request: &Request<'_>, mut call: RelayedCall) -> RelayedCall {
    let Some(trace) = request.trace() else { return call };
    let text = |name: &str| request.field(name).and_then(|value| Some(value.as_str()?.into()));
    let progress = Arc::<McpProgress>::default();
    let detail = McpDetail {
        method: "tools/call".into(),
        target: text("Mcp-Name"),
        request_id: None,
        protocol_version: text("MCP-Protocol-Version"),
        server: Some(call.member().into()),
        progress: progress.clone(),
    };
    let start = request.worker().clock().now_exact();
    trace.enter(trace.begin(StepDetail::Mcp(Box::new(detail)), None, start));
    call.set_trace(trace.current());
    call.on_outcome(move |outcome| {
        let at = Clock::system().now_exact();
        progress.answer(McpAnswered { at, failure: failure_of(outcome) });
    })
}

/// Returns the failure of a call with this outcome. A canceled call has no failure, because its client has left.
const fn failure_of(outcome: AuditOutcome) -> Option<McpFailure> {
    match outcome {
        AuditOutcome::ToolError => Some(McpFailure::Tool),
        AuditOutcome::Error(code) => Some(McpFailure::Code(code.0)),
        _ => None,
    }
}

/// Returns `true` if the server gets this header of the client.
fn is_relayed(line: &FieldLine<'_>) -> bool {
    let name = line.name.as_bytes();
    let is_param =
        name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX));
    is_param || RELAYED.iter().any(|relayed| line.name.is(relayed))
}

/// Returns `true` if the client can get the body of the response. The body of an error must be read first.
fn is_usable(response: &Response) -> bool {
    let is_events = response.status() == StatusCode::OK && has_media_type(response, b"text/event-stream");
    is_events || (response.status().as_u16() < 300 && has_media_type(response, b"application/json"))
}

/// Returns the response for the client, if the response of the server has no usable body or the status of an error. A
/// challenge of the server is no challenge for the client, because the endpoint has its own credentials. The server
/// cannot redirect the client, because the request of the client contains credentials and arguments.
async fn failed(mut response: Response, call: RelayedCall) -> Response {
    let status = response.status();
    let may_be_message = status.as_u16() >= 400 && has_media_type(&response, b"application/json");
    let content = if may_be_message { first_bytes(response.take_body()).await } else { Vec::new() };
    let (message, status) = call.failure(status, &content);
    json_message(status, message)
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
