//! Streamable HTTP: one endpoint accepts messages by POST. The endpoint answers with JSON. If a handler sends
//! messages before its answer, the endpoint answers with an event stream.

mod guard;
mod post;
mod sessions;
mod resumable;
mod archived;
mod batches;
mod events;
mod answer;
mod server_response;
mod traced;
mod tower;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use thruway_message::{FieldLines, Method};
use thruway_server::{Handler, OwnedRequest, Request, RequestContent, StatusCode};

use crate::authorization::{Authorization, Caller, CallerAddress, Challenge, Identity};
use crate::http_response::WholeResponse;
use crate::server::McpServer;
use answer::{Answer, Incoming, method_not_allowed};
use guard::Guard;
use traced::Traced;

pub use answer::json_message;
pub(crate) use answer::{KEEP_ALIVE_INTERVAL, accepted, json_error, json_of, no_capacity, unreadable};
pub use tower::{McpBody, McpService};

pub(crate) use post::{is_json, unsupported_media_type};

/// The MCP endpoint of a server. Mount the endpoint in a router at `/mcp` or any other path.
///
/// By default, the endpoint rejects requests if `Host` or `Origin` names a host other than this machine. Such
/// a request may come from an attacker's web page in a user's browser (DNS rebinding). If the server has
/// public names, allow them with [`allow_host`](Self::allow_host).
///
/// The endpoint can verify tokens itself: see [`authorize`](Self::authorize). Without this setting, a handler in
/// front of the endpoint can verify the caller. Such a handler attaches an `Arc<Identity>` to the
/// [extensions](Request::extensions) of the request.
///
/// ```
/// use thruway_mcp_server::McpServer;
/// use thruway_server::Router;
///
/// let endpoint = McpServer::new("greeter", "1.0.0").endpoint().allow_host("mcp.example");
/// let router = Router::new().any("/mcp", endpoint);
/// ```
#[derive(Clone, Debug)]
pub struct McpEndpoint {
    endpoint: Arc<Endpoint>,
}

#[derive(Clone, Debug)]
struct Endpoint {
    server: McpServer,
    guard: Guard,
    authorization: Option<Authorization>,
}

impl McpServer {
    /// Returns the endpoint that serves this server over Streamable HTTP.
    pub fn endpoint(&self) -> McpEndpoint {
        let endpoint = Endpoint { server: self.clone(), guard: Guard::default(), authorization: None };
        McpEndpoint { endpoint: Arc::new(endpoint) }
    }
}

impl McpEndpoint {
    /// Allows requests to `host`, and requests from web pages of `host`. `host` is a name or an address
    /// without a port.
    #[must_use]
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Self {
        Arc::make_mut(&mut self.endpoint).guard.allow(host.as_ref());
        self
    }

    /// Requires a token from every caller. `authorization` verifies the tokens.
    #[must_use]
    pub fn authorize(mut self, authorization: Authorization) -> Self {
        Arc::make_mut(&mut self.endpoint).authorization = Some(authorization);
        self
    }

    /// Allows requests to any host and from any web page. Use this method only for an endpoint that is public
    /// or requires tokens. On any other endpoint, every web page can use the server through the browser of
    /// its visitor.
    #[must_use]
    pub fn allow_any_host(mut self) -> Self {
        Arc::make_mut(&mut self.endpoint).guard = Guard::Open;
        self
    }
}

impl Handler for McpEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> thruway_server::Answer {
        let verified = request.extensions().get();
        let caller = match self.endpoint.admit(request.field_lines(), address_of(request), verified) {
            Ok(caller) => caller,
            Err(refusal) => return thruway_server::Answer::Now(refusal.into()),
        };
        if request.has_whole_content() {
            let (method, fields) = (request.method(), request.field_lines());
            let traced = request.trace().map(|trace| Traced::new(trace, request.worker().clock()));
            let incoming = Incoming { server: self.server(), method, fields, caller, traced };
            return handle(&incoming, request.content()).into();
        }
        let endpoint = self.endpoint.clone();
        let mut request = request.take_owned();
        thruway_server::Answer::later(async move {
            let server = &endpoint.server;
            let content = match endpoint.collect(&mut request).await {
                Ok(content) => content,
                Err(refusal) => return refusal,
            };
            let (method, fields) = (request.method(), request.field_lines());
            let traced = request.trace().map(|trace| Traced::new(trace, request.worker().clock()));
            let incoming = Incoming { server, method, fields, caller, traced };
            let answer = handle(&incoming, &content);
            // Free the body before the wait, because a handler may run for a long time. The handler has
            // copied the data that it needs.
            drop(content);
            match answer {
                Answer::Now(answered) => answered.into(),
                Answer::Later(later) => later.await.into(),
            }
        })
    }
}

impl McpEndpoint {
    /// Returns the caller of a request, for handlers that answer some requests without the endpoint.
    ///
    /// # Errors
    /// Returns the response that rejects the request, if the endpoint does not allow the request.
    pub fn caller_of(&self, request: &Request<'_>) -> Result<Caller, thruway_server::Response> {
        let verified = request.extensions().get();
        Ok(self.endpoint.admit(request.field_lines(), address_of(request), verified)?)
    }

    /// Waits until the body of `request` has arrived. The request then has the whole body. Use it in handlers that
    /// answer some requests without the endpoint. Call [`caller_of`](Self::caller_of) first.
    ///
    /// # Errors
    /// Returns the response that rejects the request, if the body is too long or incomplete.
    pub async fn wait_for_content(&self, request: &mut OwnedRequest) -> Result<(), thruway_server::Response> {
        let content = self.endpoint.collect(request).await?;
        *request.content() = RequestContent::whole(content);
        Ok(())
    }

    pub(crate) fn server(&self) -> &McpServer {
        &self.endpoint.server
    }

    /// Returns the caller of a request. `fields` contains the headers of the request, and `address` is the
    /// address of the client. `verified` is the identity that a handler in front of the endpoint has verified.
    ///
    /// # Errors
    /// Returns the response that rejects the request, if the request is not allowed.
    pub(crate) fn admit(
        &self,
        fields: FieldLines<'_>,
        address: Option<IpAddr>,
        verified: Option<&Arc<Identity>>,
    ) -> Result<Caller, WholeResponse> {
        self.endpoint.admit(fields, address, verified)
    }
}

impl Endpoint {
    /// Reads the whole body of a request.
    ///
    /// # Errors
    /// Returns the response to a request whose body is too long or incomplete.
    async fn collect(&self, request: &mut OwnedRequest) -> Result<Bytes, thruway_server::Response> {
        let bytes_max = self.server.core.options.message_bytes_max;
        request.content().collect(bytes_max).await.map_err(|error| unreadable(error, bytes_max))
    }

    /// Returns the caller of a request. `fields` contains the headers of the request, and `address` is the
    /// address of the client. `verified` is the identity that a handler in front of the endpoint has verified.
    /// Call this method first, so that the server stores nothing for a rejected request.
    fn admit(
        &self,
        fields: FieldLines<'_>,
        address: Option<IpAddr>,
        verified: Option<&Arc<Identity>>,
    ) -> Result<Caller, WholeResponse> {
        if !self.guard.allows(fields) {
            return Err(json_error(
                StatusCode::FORBIDDEN,
                "the `Host` or `Origin` of the request is not allowed: the operator of the \
                 server can allow it",
            ));
        }
        match (&self.authorization, verified) {
            (Some(authorization), _) => {
                let identity = authorization.identify(fields).map_err(Challenge::into_response)?;
                Ok(Caller::Identified(identity, Some(authorization.clone())))
            }
            (None, Some(identity)) => Ok(Caller::Identified(identity.clone(), None)),
            (None, None) => Ok(Caller::Anonymous(address)),
        }
    }
}

/// Returns the address of the client.
fn address_of(request: &Request<'_>) -> Option<IpAddr> {
    match request.extensions().get::<CallerAddress>() {
        Some(CallerAddress(address)) => *address,
        None => request.client().ip(),
    }
}

/// Answers a request to the endpoint. `content` is the body of the request.
fn handle(incoming: &Incoming<'_>, content: &[u8]) -> Answer {
    match incoming.method {
        Method::Post => post::handle(incoming, content),
        Method::Get => sessions::handle_get(incoming),
        Method::Delete => Answer::now(sessions::handle_delete(incoming)),
        _ => Answer::now(method_not_allowed()),
    }
}
