//! Serves an MCP endpoint at a route: relays tool calls, and lets the MCP server answer all other requests.

use std::sync::{Arc, OnceLock};

use thruway_gateway::VerifiedClient;
use thruway_mcp_sdk::{McpEndpoint, McpGateway, ReplicaId};
use thruway_message::Method;
use thruway_server::{Answer, Handler, Request, Response, StatusCode};

use super::identity::{bearer_token, identity_of};
use super::owner::FleetEndpoint;
use super::relay::Relays;
use crate::fleet::PeerEndpoint;

/// An MCP endpoint, which does not run until `McpEndpoints::start`.
pub(super) struct Endpoint {
    /// The gateway, and the relays of its members.
    pub(super) gateway: OnceLock<(McpGateway, Relays)>,
    /// `true` if a server needs the tokens of the callers.
    pub(super) needs_tokens: bool,
    /// The fleet, if other replicas can have sessions, pending calls and tasks of this endpoint.
    pub(super) fleet: Option<FleetEndpoint>,
}

impl Endpoint {
    /// Returns the endpoint for requests that other replicas forward. Returns `None` if the endpoint does not run.
    pub(super) fn for_peers(self: &Arc<Self>) -> Option<PeerEndpoint> {
        let (gateway, _) = self.gateway.get()?;
        // The first replica has checked the host.
        let server = gateway.server().endpoint().allow_any_host();
        let handler = Here(Arc::new(ServedEndpoint { endpoint: self.clone(), server }));
        let gateway = gateway.clone();
        Some(PeerEndpoint {
            handler: Arc::new(handler),
            report: Box::new(move |work| {
                work.sessions += gateway.session_count();
                work.pending_calls += gateway.pending_call_count();
                work.tasks += gateway.task_count();
            }),
        })
    }
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
        match served.owner_in_fields(request) {
            Some(owner) => served.forward(owner, request),
            None => served.handle_call_or_other(request, ServedEndpoint::handle_whole),
        }
    }
}

/// Handles requests on this replica, also if they name another replica.
struct Here(Arc<ServedEndpoint>);

impl Handler for Here {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.0.handle_call_or_other(request, ServedEndpoint::handle_here)
    }
}

/// Handles a request with its whole body.
type HandleWhole = for<'a> fn(&'a Arc<ServedEndpoint>, &mut Request<'a>) -> Answer;

/// Calls a function with a request.
struct Whole(Arc<ServedEndpoint>, HandleWhole);

impl Handler for Whole {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        self.1(&self.0, request)
    }
}

impl ServedEndpoint {
    fn handle_call_or_other<'a>(
        self: &'a Arc<Self>,
        request: &mut Request<'a>,
        handle: HandleWhole,
    ) -> Answer {
        let may_be_call = request.method() == Method::Post && request.field("Mcp-Name").is_some();
        if may_be_call { self.handle_call(request, handle) } else { self.server.handle(request) }
    }

    /// Handles a request that may be a tool call. Waits for its body, because the body must name the same tool as the
    /// headers.
    fn handle_call<'a>(self: &'a Arc<Self>, request: &mut Request<'a>, handle: HandleWhole) -> Answer {
        if request.has_whole_content() {
            return handle(self, request);
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
            response_of(request.forward_to(&Whole(served, handle))).await
        })
    }

    /// Handles a request with its whole body, or forwards it to the replica that its body names.
    fn handle_whole<'a>(self: &'a Arc<Self>, request: &mut Request<'a>) -> Answer {
        let fleet = self.endpoint.fleet.as_ref();
        match fleet.and_then(|fleet| fleet.owner_in_body(request.content())) {
            Some(owner) => self.forward(owner, request),
            None => self.handle_here(request),
        }
    }

    /// Handles a request with its whole body.
    fn handle_here<'a>(self: &'a Arc<Self>, request: &mut Request<'a>) -> Answer {
        self.relay(request).unwrap_or_else(|| self.server.handle(request))
    }

    fn owner_in_fields(&self, request: &Request<'_>) -> Option<ReplicaId> {
        self.endpoint.fleet.as_ref()?.owner_in_fields(request.field_lines())
    }

    /// Forwards a request to the replica `owner`. If this replica does not answer, this endpoint answers that it does not
    /// know the session, the pending call or the task.
    fn forward(self: &Arc<Self>, owner: ReplicaId, request: &mut Request<'_>) -> Answer {
        let caller = match self.server.caller_of(request) {
            Ok(caller) => caller,
            Err(refusal) => return Answer::Now(refusal),
        };
        let (served, mut request) = (self.clone(), request.take_owned());
        Answer::later(async move {
            if let Err(refusal) = served.server.wait_for_content(&mut request).await {
                return refusal;
            }
            let here = Here(served.clone());
            let Some(fleet) = &served.endpoint.fleet else {
                return response_of(request.forward_to(&here)).await;
            };
            let Some(owner) = fleet.fleet.owner(owner).await else {
                return response_of(request.forward_to(&here)).await;
            };
            let owner = owner.handler(&fleet.name, caller, Arc::new(here));
            response_of(request.forward_to(&owner)).await
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

async fn response_of(answer: Answer) -> Response {
    match answer {
        Answer::Now(response) => response,
        Answer::Later(later) => later.await,
    }
}
