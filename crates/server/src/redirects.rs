//! Requests without TLS that are to come with it.

use std::sync::Arc;

use thruway_message::{Authority, RequestTarget};

use crate::{Answer, Handler, Request, Response, StatusCode};

/// Answers every request with its own URL at `https`.
struct RedirectToHttps {
    port: u16,
}

/// What redirects to `port`.
pub(crate) fn to_https(port: u16) -> Arc<dyn Handler> {
    Arc::new(RedirectToHttps { port })
}

impl Handler for RedirectToHttps {
    fn handle(&self, request: &mut Request<'_>) -> Answer {
        Answer::Now(self.redirected(request))
    }
}

impl RedirectToHttps {
    /// 308, so that methods and content stay what they are; 400 to requests that name no host.
    fn redirected(&self, request: &Request<'_>) -> Response {
        let host = Authority::parse(request.host().as_bytes()).ok().map(|authority| authority.host());
        let Some(host) = host.filter(|host| !host.is_empty()) else {
            return Response::text("the request names no host\n").with_status(StatusCode::BAD_REQUEST);
        };
        let (path, query) = match request.target() {
            RequestTarget::Origin(_) | RequestTarget::Absolute(_) => (request.path(), request.query_string()),
            _ => ("/", None),
        };
        let port = if self.port == 443 { String::new() } else { format!(":{}", self.port) };
        let (mark, query) = query.map_or(("", ""), |query| ("?", query));
        let location = format!("https://{host}{port}{path}{mark}{query}");
        Response::new(StatusCode::PERMANENT_REDIRECT).with_field("Location", location)
    }
}
