//! Checks each request to the admin listener. All requests pass through [`Guarded`].
//!
//! A web page can make a browser send requests to servers on the machine of the browser. The author of the page
//! can even make the DNS name of the page point to this machine (DNS rebinding). The page cannot forge `Host`,
//! `Origin` and `Sec-Fetch-Site`, so the guard checks these headers.

use std::net::IpAddr;

use thruway_server::{Answer, ClientAddr, Handler, Request, Response, StatusCode};

use super::access::Authenticated;
use super::audit::Change;

/// Passes requests to `inner`, but refuses requests that a web page of another site may have sent.
pub(super) struct Guarded {
    inner: Authenticated,
    /// `true` accepts any `Host`, because other machines reach the listener under names that Thruway does
    /// not know. Such a listener requires authentication. DNS rebinding does not help the author of a page
    /// there: browsers keep credentials by name, and have none for the name of the page.
    allow_any_host: bool,
}

/// The parts of a request on which the decision depends.
struct Facts<'r> {
    is_unix_socket: bool,
    /// `true` for GET and HEAD.
    is_reading: bool,
    scheme: &'r str,
    /// Host without port, as in `Host` or in the URI.
    host: &'r str,
    /// Host with port, as in `Host` or in the URI.
    authority: &'r str,
    origin: Option<&'r str>,
    fetch_site: Option<&'r str>,
    fetch_mode: Option<&'r str>,
}

/// The decision about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Allowed,
    /// `Host` does not name this machine.
    OtherHost,
    /// A web page of another origin has sent the request.
    OtherOrigin,
}

/// A refusal, in the audit log and in the response.
struct Refusal {
    reason: &'static str,
    text: &'static str,
}

impl Guarded {
    pub(super) const fn new(inner: Authenticated, allow_any_host: bool) -> Self {
        Self { inner, allow_any_host }
    }

    fn verdict(&self, request: &Request<'_>) -> Verdict {
        let head = request.head();
        let Some(authority) = head.authority() else { return Verdict::OtherHost };
        // A value that is not UTF-8 counts as a value of another origin.
        let field = |name| request.field(name).map(|value| value.as_str().unwrap_or("invalid"));
        let facts = Facts {
            is_unix_socket: matches!(request.client(), ClientAddr::Unix),
            is_reading: matches!(request.method().as_str(), "GET" | "HEAD"),
            scheme: request.scheme(),
            host: authority.host(),
            authority: authority.as_str(),
            origin: field("origin"),
            fetch_site: field("sec-fetch-site"),
            fetch_mode: field("sec-fetch-mode"),
        };
        facts.verdict(self.allow_any_host)
    }
}

impl Handler for Guarded {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let refusal = match self.verdict(request) {
            Verdict::Allowed => return request.forward_to(&self.inner).map(harden),
            Verdict::OtherHost => Refusal { reason: "other_host", text: OTHER_HOST },
            Verdict::OtherOrigin => Refusal { reason: "other_origin", text: OTHER_ORIGIN },
        };
        if let Some(change) = Change::of(request) {
            change.log_refusal(refusal.reason);
        }
        Answer::Now(harden(Response::text(refusal.text).with_status(StatusCode::FORBIDDEN)))
    }
}

/// Adds headers that stop browsers from guessing the type of a response, and from passing it to other sites.
fn harden(response: Response) -> Response {
    response
        .with_field("X-Content-Type-Options", "nosniff")
        .with_field("Cross-Origin-Resource-Policy", "same-origin")
}

impl Facts<'_> {
    fn verdict(&self, allow_any_host: bool) -> Verdict {
        if !allow_any_host && !self.is_local() {
            Verdict::OtherHost
        } else if self.is_of_other_origin() {
            Verdict::OtherOrigin
        } else {
            Verdict::Allowed
        }
    }

    /// Returns `true` for a Unix socket, and if the host is a name or address of this machine.
    fn is_local(&self) -> bool {
        self.is_unix_socket
            || self.host.eq_ignore_ascii_case("localhost")
            || self.host_address().is_some_and(|address| address.is_loopback())
    }

    /// Returns the host as an IP address, if it is one.
    fn host_address(&self) -> Option<IpAddr> {
        let host = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(self.host);
        host.parse().ok()
    }

    /// Returns `true` if a page of another origin has sent the request. A link on another page may open the
    /// dashboard, because that page cannot read the response.
    fn is_of_other_origin(&self) -> bool {
        let own = |origin: &str| {
            let authority = origin.strip_prefix(self.scheme).and_then(|rest| rest.strip_prefix("://"));
            authority.is_some_and(|authority| authority.eq_ignore_ascii_case(self.authority))
        };
        let is_link = self.is_reading && self.fetch_mode == Some("navigate");
        let is_other_site = self.fetch_site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
        self.origin.is_some_and(|origin| !own(origin)) || is_other_site && !is_link
    }
}

const OTHER_HOST: &str = "`Host` does not name this machine: use `127.0.0.1`, `[::1]` or `localhost`\n";
const OTHER_ORIGIN: &str = "the admin listener refuses requests from web pages of other origins\n";

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Facts<'_> = Facts {
        is_unix_socket: false,
        is_reading: true,
        scheme: "http",
        host: "127.0.0.1",
        authority: "127.0.0.1:9900",
        origin: None,
        fetch_site: None,
        fetch_mode: None,
    };

    const CHANGE: Facts<'_> = Facts { is_reading: false, ..REQUEST };

    impl Facts<'_> {
        fn is_allowed(&self, allow_any_host: bool) -> bool {
            self.verdict(allow_any_host) == Verdict::Allowed
        }
    }

    #[test]
    fn requests_of_the_own_page_are_allowed() {
        let origin = Some("http://127.0.0.1:9900");
        assert!(Facts { origin, fetch_site: Some("same-origin"), ..CHANGE }.is_allowed(false));
        assert!(Facts { origin, ..CHANGE }.is_allowed(false), "a browser without Sec-Fetch-Site");
        assert!(CHANGE.is_allowed(false), "a program that is not a browser");
        let [host, authority] = ["[::1]", "[::1]:9900"];
        assert!(Facts { host, authority, origin: Some("http://[::1]:9900"), ..CHANGE }.is_allowed(false));
    }

    #[test]
    fn requests_of_pages_of_other_origins_are_refused() {
        for origin in [
            "http://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:3000",
            "https://127.0.0.1:9900",
            "null",
            "",
            "http://localhost:9900",
            "http://127.0.0.1:9900.evil.example",
            "invalid",
        ] {
            assert!(!Facts { origin: Some(origin), ..CHANGE }.is_allowed(false), "{origin}");
            assert!(!Facts { origin: Some(origin), ..REQUEST }.is_allowed(true), "{origin}");
        }
        for site in ["cross-site", "same-site", "invalid"] {
            assert!(!Facts { fetch_site: Some(site), ..CHANGE }.is_allowed(false), "{site}");
            assert!(!Facts { fetch_site: Some(site), ..REQUEST }.is_allowed(false), "{site}");
        }
    }

    #[test]
    fn link_on_another_page_may_open_the_dashboard_but_not_change_anything() {
        let link = Facts { fetch_site: Some("cross-site"), fetch_mode: Some("navigate"), ..REQUEST };
        assert!(link.is_allowed(false));
        assert!(!Facts { is_reading: false, ..link }.is_allowed(false), "a form");
    }

    /// With DNS rebinding, `Host` and `Origin` both contain the name of the other page.
    #[test]
    fn page_with_a_dns_name_reaches_only_a_listener_with_authentication() {
        let (host, authority) = ("evil.example", "evil.example:9900");
        let rebound = Facts { host, authority, origin: Some("http://evil.example:9900"), ..CHANGE };
        assert!(!rebound.is_allowed(false) && !Facts { is_reading: true, ..rebound }.is_allowed(false));
        let (host, authority) = ("gateway.example", "gateway.example:9900");
        let (scheme, origin) = ("https", Some("https://gateway.example:9900"));
        let own = Facts { scheme, host, authority, origin, fetch_site: Some("same-origin"), ..CHANGE };
        assert!(own.is_allowed(true) && !own.is_allowed(false));
        assert!(!Facts { origin: Some("https://evil.example:9900"), ..own }.is_allowed(true));
    }
}
