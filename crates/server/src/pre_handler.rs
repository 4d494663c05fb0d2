//! Handlers of a listener that run before the handler of the server: first answers, and redirects to `https`.

use std::sync::Arc;

use thruway_message::{Authority, RequestTarget, StatusCode};

use crate::listener::{AnswerFirst, Listener};
use crate::request::Request;
use crate::response::Response;

/// Handlers that run before the handler of the server.
#[derive(Clone)]
pub(crate) struct PreHandlers {
    redirect_to_https: Option<u16>,
    first: Option<Arc<dyn AnswerFirst>>,
}

impl PreHandlers {
    /// Returns the pre-handlers of `listener`. `None` if it has none.
    pub(crate) fn of(listener: &Listener) -> Option<Self> {
        let redirect_to_https = listener.redirect_to_https.filter(|_| listener.tls.is_none());
        let first = listener.first.clone();
        (redirect_to_https.is_some() || first.is_some()).then_some(Self { redirect_to_https, first })
    }

    /// Returns `true` if these are the pre-handlers of `listener`.
    pub(crate) fn is_of(&self, listener: &Listener) -> bool {
        let is_same_first = match (&self.first, &listener.first) {
            (Some(ours), Some(other)) => Arc::ptr_eq(ours, other),
            (ours, other) => ours.is_none() && other.is_none(),
        };
        is_same_first
            && self.redirect_to_https == listener.redirect_to_https.filter(|_| listener.tls.is_none())
    }

    /// Returns their response. `None` if the handler of the server answers the request.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Option<Response> {
        let first = self.first.as_ref().and_then(|first| first.answer(request));
        first.or_else(|| Some(redirected(request, self.redirect_to_https?)))
    }
}

/// Returns a redirect to the URL of the request with `https` and `port`. It has status 308, which preserves
/// method and body. Requests without a host get 400.
fn redirected(request: &Request<'_>, port: u16) -> Response {
    let host = Authority::parse(request.host().as_bytes()).ok().map(|authority| authority.host());
    let Some(host) = host.filter(|host| !host.is_empty()) else {
        return Response::text("the request has no host\n").with_status(StatusCode::BAD_REQUEST);
    };
    let (path, query) = match request.target() {
        RequestTarget::Origin(_) | RequestTarget::Absolute(_) => (request.path(), request.query_string()),
        _ => ("/", None),
    };
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let (mark, query) = query.map_or(("", ""), |query| ("?", query));
    let location = format!("https://{host}{port}{path}{mark}{query}");
    Response::new(StatusCode::PERMANENT_REDIRECT).with_field("Location", location)
}
