//! Finds upstreams whose servers are listeners of the same config. With such an upstream, requests could loop
//! forever.

use std::net::{IpAddr, SocketAddr};

use thruway_gateway::{HostRewrite, PathMatch, RouteMatch, ServerAddr, ServerLookup};
use thruway_net::is_of_this_machine;
use thruway_server::ListenAddr;

use super::forward::{ForwardAction, ForwardTo};
use super::mcp::settings::McpTarget;
use super::usage::{forwards_to, goes_to, uses};
use super::{Action, Config, Failure, ListenerConfig, Route};

/// Refuses an upstream if every request or TCP stream for it would return to the same route or listener. The
/// result depends only on the config, because this function looks up no names.
pub(crate) fn refuse_loops(config: &Config) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for (name, upstream) in &config.upstreams {
        for (server, settings) in upstream.servers.iter().enumerate() {
            let ends_at = |listener: &&ListenerConfig| is_same(&settings.address, &listener.address);
            let mut listeners = config.listeners.iter().filter(ends_at);
            if let Some(listener) = listeners.find(|listener| comes_back(config, name, listener)) {
                let message = format!(
                    "the upstream `{name}` sends requests back to the listener `{}`",
                    listener.address
                );
                failures.push(config.failure_at_server(name, server, message).with_hint(LOOP_HINT));
            }
        }
    }
    failures.extend(mcp_loops(config));
    Failure::all(failures).map_or(Ok(()), Err)
}

/// Returns an error for each MCP server whose requests would return to an endpoint with the same server.
fn mcp_loops(config: &Config) -> Vec<Failure> {
    let mut failures = Vec::new();
    for (name, server) in &config.mcp.servers {
        let McpTarget::Upstream { upstream, path, .. } = &server.target else { continue };
        let Some(upstream) = config.upstreams.get(upstream) else { continue };
        let ends_at = |listener: &ListenerConfig| {
            let mut servers = upstream.servers.iter();
            servers.any(|server| is_same(&server.address, &listener.address))
        };
        let is_own = |listener: &&ListenerConfig| {
            let same_tls = listener.tls.is_some() == upstream.tls.is_some();
            listener.has_routes() && same_tls && ends_at(listener)
        };
        let is_member =
            |route: &&Route| matches!(&route.action, Action::Mcp(of) if config.mcp.has_member(of, name));
        let mut routes = config.listeners.iter().filter(is_own).filter_map(|listener| {
            Some((listener, route_for_any_host(config, listener, path).filter(is_member)?))
        });
        if let Some((listener, route)) = routes.next() {
            let (address, route) = (&listener.address, route.label());
            let message = format!(
                "the MCP server `{name}` sends requests back to the route `{route}` of the listener `{address}`"
            );
            failures.push(config.failure_at_mcp_server(name, message).with_hint(MCP_LOOP_HINT));
        }
    }
    failures
}

/// Returns the route that handles requests for `path` on `listener`. Returns `None` if this also depends on the
/// host or on other conditions.
fn route_for_any_host<'c>(config: &'c Config, listener: &ListenerConfig, path: &str) -> Option<&'c Route> {
    let path = path.split('?').next().unwrap_or_default();
    let is_candidate = |route: &&Route| is_on(listener, route) && may_match(&route.matching.path, path);
    let candidates = || config.routes.iter().filter(is_candidate);
    let is_certain = candidates().all(|route| {
        let RouteMatch { path, conditions, .. } = &route.matching;
        let is_for_any_host = route.matching.is_for_any_host();
        is_for_any_host && conditions.count() == 0 && !matches!(path, PathMatch::Pattern(_))
    });
    let rank = |route: &&Route| {
        let path = match &route.matching.path {
            PathMatch::Exact(_) => usize::MAX,
            other => other.as_str().len(),
        };
        (path, route.matching.condition_count())
    };
    candidates().max_by_key(rank).filter(|_| is_certain)
}

/// Returns `true` if requests of `listener` may match `route`.
fn is_on(listener: &ListenerConfig, route: &Route) -> bool {
    route.matching.is_for_listener(listener.name.as_deref())
}

/// Returns `true` if requests for `path` may match `route`.
fn may_match(route: &PathMatch, path: &str) -> bool {
    match route {
        PathMatch::Exact(own) => own == path,
        PathMatch::Pattern(_) => true,
        PathMatch::Prefix(own) => {
            let rest = path.strip_prefix(own.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}

/// Returns a warning for each upstream server that is a listener of this config. `lookups` contains the
/// addresses of server names.
pub(crate) fn possible_loops(config: &Config, lookups: &[(String, ServerLookup)]) -> Vec<Failure> {
    let mut warnings = Vec::new();
    for (name, upstream) in config.upstreams.iter().filter(|(name, _)| uses(config, name)) {
        for (server, settings) in upstream.servers.iter().enumerate() {
            let looked_up = lookups.iter().filter(|(of, lookup)| of == name && lookup.server == server);
            let looked_up = looked_up.flat_map(|(_, lookup)| &lookup.addresses);
            let addresses: Vec<ServerAddr> = [settings.address.clone()]
                .into_iter()
                .chain(looked_up.map(|address| ServerAddr::Address(address.clone())))
                .collect();
            let is_end = |listener: &&ListenerConfig| {
                addresses.iter().any(|address| is_here(address, &listener.address))
            };
            if let Some(listener) = config.listeners.iter().find(is_end) {
                let (server_address, listener) = (&settings.address, &listener.address);
                let message =
                    format!("the server `{server_address}` is the listener `{listener}` of this config");
                warnings.push(config.warning_at_server(name, server, message).with_hint(POSSIBLE_LOOP_HINT));
            }
        }
    }
    warnings
}

/// Returns `true` if there is a loop: `listener` would forward requests or TCP connections from `upstream`
/// back to `upstream`.
fn comes_back(config: &Config, upstream: &str, listener: &ListenerConfig) -> bool {
    if listener.tcp.is_some() {
        return forwards_to(listener, upstream);
    }
    let same_tls = listener.tls.is_some() == config.upstreams[upstream].tls.is_some();
    // If routes have conditions on headers, a header that this gateway adds may select another route.
    let has_headers = config.routes.iter().any(|route| !route.matching.conditions.headers.is_empty());
    listener.has_routes()
        && same_tls
        && !has_headers
        && config
            .routes
            .iter()
            .filter(|route| is_on(listener, route))
            .any(|route| goes_to(route, upstream) && sends_unchanged(config, route, upstream))
}

/// Returns `true` if requests that `route` forwards to the upstream with this name would match `route`
/// again.
fn sends_unchanged(config: &Config, route: &Route, upstream: &str) -> bool {
    let Action::Forward(action) = &route.action else { return false };
    let ForwardAction { to, rewrite, .. } = &**action;
    let keeps_host = route.matching.is_for_any_host()
        || config.forwards.get(upstream).is_none_or(|forward| forward.host == HostRewrite::Preserve);
    matches!(to, ForwardTo::Upstream(name) if name == upstream)
        && keeps_host
        && rewrite.path.is_none()
        && rewrite.request.is_empty()
}

/// Returns `true` if a connection to `server` reaches `listener` on every machine that may run the config.
fn is_same(server: &ServerAddr, listener: &ListenAddr) -> bool {
    leads_to(server, listener, |ip| ip.is_loopback() || ip.is_unspecified())
}

/// Returns `true` if a connection to `server` reaches `listener` when this config runs on this machine.
fn is_here(server: &ServerAddr, listener: &ListenAddr) -> bool {
    leads_to(server, listener, is_of_this_machine)
}

fn leads_to(server: &ServerAddr, listener: &ListenAddr, is_own: impl FnOnce(IpAddr) -> bool) -> bool {
    match (server, listener) {
        (ServerAddr::Address(server), ListenAddr::Unix(path)) => server.unix_path() == Some(path.as_path()),
        (ServerAddr::Address(server), ListenAddr::Tcp(listener)) => {
            server.tcp().is_some_and(|server| leads_to_address(server, *listener, is_own))
        }
        // `localhost` is always this machine (RFC 6761 §6.3).
        (ServerAddr::Name { host, port }, ListenAddr::Tcp(listener)) => {
            host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
                && *port == listener.port()
                && (listener.ip().is_loopback() || listener.ip().is_unspecified())
        }
        (ServerAddr::Name { .. }, ListenAddr::Unix(_)) => false,
    }
}

fn leads_to_address(server: SocketAddr, listener: SocketAddr, is_own: impl FnOnce(IpAddr) -> bool) -> bool {
    let (ip, own) = (server.ip().to_canonical(), listener.ip());
    if server.port() != listener.port() || ip.is_ipv4() != own.is_ipv4() {
        return false;
    }
    // A client that connects to `0.0.0.0` reaches the loopback address.
    ip == own || (own.is_unspecified() && is_own(ip)) || (ip.is_unspecified() && own.is_loopback())
}

const LOOP_HINT: &str = "each request would return to this gateway: use the address of another server";
const MCP_LOOP_HINT: &str =
    "each request would return to the same MCP endpoint: use the address or the path of another MCP server";
const POSSIBLE_LOOP_HINT: &str = "requests may return to this gateway: it forwards a request to itself once, and responds 508 if the request returns again";

#[cfg(test)]
mod tests {
    use super::*;

    fn is_same_text(server: &str, listener: &str) -> bool {
        is_same(&server.parse().unwrap(), &listener.parse().unwrap())
    }

    #[test]
    fn server_address_matches_listener_in_every_spelling() {
        for (server, listener) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "0.0.0.0:80"),
            ("127.9.9.9:80", "0.0.0.0:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::]:80"),
            ("[::]:80", "[::1]:80"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("LOCALHOST:80", "[::]:80"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("unix:/run/a", "unix:/run/a"),
        ] {
            assert!(is_same_text(server, listener), "{server} {listener}");
        }
        for (server, listener) in [
            ("127.0.0.1:81", "127.0.0.1:80"),
            ("127.0.0.2:80", "127.0.0.1:80"),
            ("[::1]:80", "0.0.0.0:80"),
            ("192.0.2.1:80", "0.0.0.0:80"),
            ("a.example:80", "127.0.0.1:80"),
            ("localhost:80", "192.0.2.1:80"),
            ("localhost:80", "unix:/run/a"),
            ("unix:/run/b", "unix:/run/a"),
        ] {
            assert!(!is_same_text(server, listener), "{server} {listener}");
        }
    }
}
