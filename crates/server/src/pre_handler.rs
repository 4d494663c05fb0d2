//! Handlers of a listener that run before the handler of the server: [`AnswerFirst`], and the redirect to
//! `https`.

use std::sync::Arc;

use thruway_message::{Authority, RequestTarget, StatusCode};

use crate::listener::{AnswerFirst, Listener};
use crate::request::Request;
use crate::response::Response;

/// The pre-handlers of a listener.
#[derive(Clone)]
pub(crate) struct PreHandlers {
    redirect_to_https: Option<u16>,
    first: Option<Arc<dyn AnswerFirst>>,
}

impl PreHandlers {
    /// Returns the pre-handlers of `listener`. `None` if the listener has no pre-handlers.
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

    /// Returns the response of the pre-handlers. `None` if the handler of the server must answer the request.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Option<Response> {
        let first = self.first.as_ref().and_then(|first| first.answer(request));
        first.or_else(|| Some(redirected(request, self.redirect_to_https?)))
    }
}

/// Returns a redirect to the URL of the request with `https` and `port`. The status is 308, so the client
/// repeats the method and the body. A request without a host gets 400.
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
