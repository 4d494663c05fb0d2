//! Checks requests to the admin listener. A web page can make a browser send requests to servers on the
//! machine of the browser. The author of the page can even make the DNS name of the page point to this
//! machine (DNS rebinding). The page cannot forge `Host` and `Origin`, so the guard checks these headers.

use thruway_message::RequestHead;
use thruway_server::{Answer, ClientAddr, Handler, Request, Response, Router, StatusCode};

/// Passes requests to `router`, but refuses requests that a web page of another site may have sent.
pub(super) struct Guarded {
    router: Router,
    /// `true` accepts any `Host`, because other machines reach the listener under names that Thruway does
    /// not know.
    allow_any_host: bool,
}

impl Guarded {
    pub(super) const fn new(router: Router, allow_any_host: bool) -> Self {
        Self { router, allow_any_host }
    }

    fn allows(&self, request: &Request<'_>) -> bool {
        let is_from_page = request.method().as_str() != "GET" && request.field("origin").is_some();
        let is_local = matches!(request.client(), ClientAddr::Unix) || is_to_this_machine(request.head());
        !is_from_page && (self.allow_any_host || is_local)
    }
}

impl Handler for Guarded {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        if self.allows(request) {
            return request.forward_to(&self.router);
        }
        let reason =
            "the admin listener accepts only requests from this machine, and no requests from web pages\n";
        Answer::Now(Response::text(reason).with_status(StatusCode::FORBIDDEN))
    }
}

fn is_to_this_machine(head: &RequestHead<'_>) -> bool {
    head.authority().is_some_and(|authority| {
        LOCAL.iter().any(|local| authority.host().eq_ignore_ascii_case(local))
            || authority.host().parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
    })
}

const LOCAL: [&str; 2] = ["localhost", "[::1]"];
