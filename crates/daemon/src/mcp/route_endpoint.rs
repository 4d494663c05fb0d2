//! Serves an MCP endpoint at a route: relays tool calls, and lets the MCP server answer all other requests.

use std::sync::{Arc, OnceLock};

use thruway_gateway::VerifiedClient;
use thruway_mcp_sdk::{McpEndpoint, McpGateway};
use thruway_message::Method;
use thruway_server::{Answer, Handler, Request, Response, StatusCode};

use super::identity::{bearer_token, identity_of};
use super::relay::Relays;

/// An MCP endpoint, which does not run until `McpEndpoints::start`.
pub(super) struct Endpoint {
    /// The gateway, and the relays of its members.
    pub(super) gateway: OnceLock<(McpGateway, Relays)>,
    /// `true` if a server needs the tokens of the callers.
    pub(super) needs_tokens: bool,
}

/// Serves an MCP endpoint at a route.
pub(super) struct RouteEndpoint {
    endpoint: Arc<Endpoint>,
    /// Hosts for which the endpoint accepts requests, in addition to the names of this machine.
    hosts: Vec<String>,
    served: OnceLock<Arc<ServedEndpoint>>,
}

/// A running endpoint.
struct ServedEndpoint {
    endpoint: Arc<Endpoint>,
    server: McpEndpoint,
}

impl RouteEndpoint {
    pub(super) const fn new(endpoint: Arc<Endpoint>, hosts: Vec<String>) -> Self {
        Self { endpoint, hosts, served: OnceLock::new() }
    }

    fn served(&self, gateway: &McpGateway) -> &Arc<ServedEndpoint> {
        self.served.get_or_init(|| {
            let server = self.hosts.iter().fold(gateway.server().endpoint(), McpEndpoint::allow_host);
            Arc::new(ServedEndpoint { endpoint: self.endpoint.clone(), server })
        })
    }
}

impl Handler for RouteEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let Some((gateway, _)) = self.endpoint.gateway.get() else {
            let text = "the MCP endpoint is not running\n";
            return Answer::Now(Response::text(text).with_status(StatusCode::SERVICE_UNAVAILABLE));
        };
        if let Some(client) = request.extensions_mut().remove::<Arc<VerifiedClient>>() {
            let has_token = self.endpoint.needs_tokens && !client.claims.is_empty();
            let mut identity = identity_of(client);
            if has_token {
                identity.token = bearer_token(request.field_lines());
            }
            request.extensions_mut().insert(Arc::new(identity));
        }
        let served = self.served(gateway);
        let may_be_call = request.method() == Method::Post && request.field("Mcp-Name").is_some();
        if may_be_call { served.handle_call(request) } else { served.server.handle(request) }
    }
}

/// Handles requests with their whole body.
impl Handler for ServedEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.relay(request).unwrap_or_else(|| self.server.handle(request))
    }
}

impl ServedEndpoint {
    /// Handles a request that may be a tool call. Waits for its body, because the body must name the same tool as the
    /// headers.
    fn handle_call<'a>(self: &'a Arc<Self>, request: &mut Request<'a>) -> Answer {
        if request.has_whole_content() {
            return self.handle(request);
        }
        // Before the wait, so that the server stores nothing for a rejected request.
        if let Err(refusal) = self.server.caller_of(request) {
            return Answer::Now(refusal);
        }
        let (served, mut request) = (self.clone(), request.take_owned());
        Answer::later(async move {
            if let Err(refusal) = served.server.wait_for_content(&mut request).await {
                return refusal;
            }
            match request.forward_to(&*served) {
                Answer::Now(response) => response,
                Answer::Later(later) => later.await,
            }
        })
    }

    /// Relays a request with its whole body. Returns `None` if the MCP server must handle the request.
    fn relay(&self, request: &mut Request<'_>) -> Option<Answer> {
        let (gateway, relays) = self.endpoint.gateway.get()?;
        // The MCP server has the response for a caller that it rejects.
        let caller = self.server.caller_of(request).ok()?;
        let has_relay = |member: &str| relays.contains_key(member);
        let call = gateway.relayed_call(request.field_lines(), request.content(), &caller, has_relay)?;
        Some(relays.get(call.member())?.relay(request, call, &self.server))
    }
}
