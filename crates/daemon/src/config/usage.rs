//! Finds parts of a config that have no effect: unused upstreams and policies, HTTP keys in upstreams for
//! TCP connections, and redirects to ports without TLS.

use std::collections::BTreeMap;

use thruway_gateway::{HostMatch, PathMatch, PolicyConfig};
use thruway_server::ListenAddr;

use crate::config::forward::ForwardTo;
use crate::config::mcp::settings::McpSettings;
use crate::config::resolver::Resolver;
use crate::config::upstreams::RawUpstream;
use crate::config::values::{Span, Spanned};
use crate::config::{Action, Config, Failure, ListenerConfig, Route};

/// Returns warnings about unused upstreams and policies, weak password hashes, redirects to ports without TLS, and shared sticky
/// cookies. An unused upstream or policy is not an error, because the operator may use it later. But a
/// misspelled name may also be the cause.
pub(crate) fn unused(config: &Config) -> Vec<Failure> {
    let has_policy = |name: &String| config.routes.iter().any(|route| route.policies.contains(name));
    let upstreams = config.places.upstreams.iter().filter(|(name, _)| !uses(config, name));
    let policies = config.places.policies.iter().filter(|(name, _)| !has_policy(name));
    let upstreams = upstreams.map(|(name, places)| {
        let warning = config.warning_at(&places.span, format!("nothing uses the upstream `{name}`"));
        warning.with_hint("use this upstream in a route or a listener, or remove this upstream")
    });
    let policies = policies.map(|(name, span)| {
        let warning = config.warning_at(span, format!("no route uses the policy `{name}`"));
        warning.with_hint("add this policy to `policies` of a route, or remove this policy")
    });
    let policies = policies.chain(weak_passwords(config)).chain(counts_without_user(config));
    let policies = policies.chain(unreachable_callbacks(config));
    let warnings = upstreams.chain(policies).chain(unused_mcp(config)).chain(redirects_without_tls(config));
    let stores = peers_without_store(config).into_iter().chain(durable_in_memory(config));
    warnings.chain(shared_sticky_cookies(config)).chain(stores).collect()
}

/// Returns a warning for each policy with password hashes in the weak format of Apache.
fn weak_passwords(config: &Config) -> impl Iterator<Item = Failure> {
    config.places.policies.iter().filter_map(|(name, span)| {
        let Some(PolicyConfig::BasicAuth(users)) = config.policies.get(name) else { return None };
        let weak: Vec<_> = users.users.iter().filter(|(_, hash)| hash.is_weak()).collect();
        let (user, _) = weak.first()?;
        let user = user.escape_debug();
        let message = match weak.len() {
            1 => format!("the password hash of the user `{user}` is weak, because `$apr1$` uses MD5"),
            n => format!(
                "the password hashes of {n} users are weak, because `$apr1$` uses MD5: the first is `{user}`"
            ),
        };
        let hint = "use bcrypt: `htpasswd -nBC 10 NAME` prints `NAME:HASH`";
        Some(config.warning_at(span, message).with_hint(hint))
    })
}

/// Returns warnings about policies that count by user on a route where no earlier policy verifies a user.
/// They would count by the address of the client.
fn counts_without_user(config: &Config) -> impl Iterator<Item = Failure> {
    let verifies = |name: &String| {
        let policy = config.policies.get(name);
        policy.is_some_and(|policy| {
            matches!(
                policy,
                PolicyConfig::ApiKeys(_)
                    | PolicyConfig::BasicAuth(_)
                    | PolicyConfig::Jwt(_)
                    | PolicyConfig::Oidc(_)
            )
        })
    };
    config.routes.iter().filter_map(move |route| {
        let mut policies = route.policies.iter().enumerate();
        let (_, name) = policies.find(|(place, name)| {
            let counts = config.policies.get(*name).is_some_and(PolicyConfig::counts_by_user);
            counts && !route.policies[..*place].iter().any(verifies)
        })?;
        let message = format!(
            "the policy `{name}` counts by user, but no earlier policy of this route verifies a user: it counts by \
             the address of the client"
        );
        let hint = "put a policy with `jwt`, `oidc`, `basic_auth` or `api_keys` before it in `policies`, or write `by = \"address\"`";
        Some(config.warning_at(&route.span, message).with_hint(hint))
    })
}

/// Returns a warning for each path of a login that no route with its policy contains.
fn unreachable_callbacks(config: &Config) -> impl Iterator<Item = Failure> {
    config.places.policies.iter().flat_map(move |(name, span)| {
        let oidc = match config.policies.get(name) {
            Some(PolicyConfig::Oidc(oidc)) => Some(oidc),
            _ => None,
        };
        let paths = oidc
            .into_iter()
            .flat_map(|oidc| [("callback_path", &oidc.callback_path), ("logout_path", &oidc.logout_path)]);
        let routes = move || config.routes.iter().filter(move |route| route.policies.contains(name));
        let unreachable = paths.filter(move |(_, path)| {
            routes().next().is_some() && !routes().any(|route| contains(&route.matching.path, path))
        });
        unreachable.map(move |(key, path)| {
            let message = format!("no route with the policy `{name}` contains the `{key}` `{path}`");
            let hint = "add the policy to a route that contains this path, or set another path";
            config.warning_at(span, message).with_hint(hint)
        })
    })
}

/// Returns `true` if the route path contains `path`, or if this depends on the parameters of the route path.
fn contains(route_path: &PathMatch, path: &str) -> bool {
    match route_path {
        PathMatch::Exact(own) => own == path,
        PathMatch::Pattern(_) => true,
        PathMatch::Prefix(prefix) => {
            let prefix = prefix.trim_end_matches('/');
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}

/// Returns a warning about a peer listener with a store in memory. The gateways of a fleet find each other only in a
/// store that all of them use.
fn peers_without_store(config: &Config) -> Option<Failure> {
    let shared = config.shared.as_ref().filter(|shared| shared.store.is_none() && shared.peers.is_some())?;
    let message = "no other gateway finds this `peer_listen`, because the shared store is in the memory of this process";
    let hint = "set `store = \"redis://HOST:6379\"` in `[shared]`, or remove `peer_listen`";
    Some(config.shared_warning(shared, message).with_hint(hint))
}

/// Returns a warning if durable tasks and events have no store outside of this process.
fn durable_in_memory(config: &Config) -> Option<Failure> {
    let shared = config.shared.as_ref().filter(|shared| shared.is_durable && shared.store.is_none())?;
    let warning = config
        .shared_warning(shared, "`durable` has no effect, because the store `memory` ends with this process");
    Some(warning.with_hint("write the URL of a store in Redis or Valkey as `store`, or remove `durable`"))
}

/// Returns warnings about MCP endpoints without a route, and MCP servers without an endpoint.
fn unused_mcp(config: &Config) -> impl Iterator<Item = Failure> {
    let is_for = |route: &Route, name: &String| matches!(&route.action, Action::Mcp(of) if of == name);
    let has_route = move |name: &String| config.routes.iter().any(|route| is_for(route, name));
    let endpoints = config.places.mcp.endpoints.iter().filter(move |(name, _)| !has_route(name));
    let endpoints = endpoints.map(|(name, span)| {
        let warning = config.warning_at(span, format!("no route serves the MCP endpoint `{name}`"));
        warning.with_hint(format!("add a route with `mcp = \"{name}\"`, or remove this endpoint"))
    });
    let used = config.mcp.used_servers();
    let servers = config.places.mcp.servers.iter().filter(move |(name, _)| !used.contains(name.as_str()));
    let servers = servers.map(|(name, span)| {
        let warning = config.warning_at(span, format!("no endpoint uses the MCP server `{name}`"));
        warning.with_hint("add this server to `servers` of an endpoint, or remove this server")
    });
    let issuers = config.mcp.used_issuers();
    let issuers = config.places.mcp.issuers.iter().filter(move |(name, _)| !issuers.contains(name.as_str()));
    let issuers = issuers.map(|(name, span)| {
        let warning = config.warning_at(span, format!("no MCP server uses the issuer `{name}`"));
        warning.with_hint("use this issuer in `auth` of an MCP server, or remove this issuer")
    });
    endpoints.chain(servers).chain(issuers)
}

/// Returns a warning if two upstreams for the same host have sticky cookies with the same name. Each upstream
/// would replace the cookie of the other upstream.
fn shared_sticky_cookies(config: &Config) -> Vec<Failure> {
    let cookies = config.upstreams.iter().filter_map(|(name, upstream)| {
        let cookie = &upstream.sticky.as_ref()?.cookie;
        let responds = config.routes.iter().filter(|route| responds_for(route, name));
        Some((name, cookie, responds.flat_map(|route| route.matching.hosts_or_any()).collect::<Vec<_>>()))
    });
    let cookies: Vec<_> = cookies.collect();
    let mut warnings = Vec::new();
    for (place, (name, cookie, hosts)) in cookies.iter().enumerate() {
        let earlier = cookies[..place].iter().find(|(_, other, other_hosts)| {
            let mut pairs = hosts.iter().flat_map(|host| other_hosts.iter().map(move |other| (host, other)));
            other == cookie && pairs.any(|(host, other)| have_common_host(host, other))
        });
        if let (Some((other, ..)), Some(places)) = (earlier, config.places.upstreams.get(*name)) {
            let message =
                format!("the upstreams `{other}` and `{name}` have the same sticky cookie `{cookie}`");
            let hint = "choose another cookie name: each of the two upstreams would replace the cookie of the other upstream";
            warnings.push(config.warning_at(&places.span, message).with_hint(hint));
        }
    }
    warnings
}

pub(in crate::config) fn have_common_host(one: &HostMatch, other: &HostMatch) -> bool {
    let is_below = |host: &str, parent: &str| {
        host.strip_suffix(parent).is_some_and(|start| start.is_empty() || start.ends_with('.'))
    };
    match (one, other) {
        (HostMatch::Any, _) | (_, HostMatch::Any) => true,
        (HostMatch::Exact(one), HostMatch::Exact(other)) => one == other,
        (HostMatch::Below(parent), HostMatch::Exact(host))
        | (HostMatch::Exact(host), HostMatch::Below(parent)) => host != parent && is_below(host, parent),
        (HostMatch::Below(one), HostMatch::Below(other)) => is_below(one, other) || is_below(other, one),
    }
}

/// Returns warnings about redirects to a port at which no listener of this config serves `https`. Such a
/// redirect is not an error, because a load balancer or a port mapping may serve this port.
fn redirects_without_tls(config: &Config) -> impl Iterator<Item = Failure> {
    let serves = |listener: &ListenerConfig, port: u16| {
        let is_at_port = match &listener.address {
            ListenAddr::Tcp(address) => address.port() == port || address.port() == 0,
            ListenAddr::Unix(_) => false,
        };
        is_at_port && (listener.tls.is_some() || listener.tcp.is_some())
    };
    let redirects = config.listeners.iter().filter_map(|listener| listener.redirect_to_https.as_ref());
    let without_listener = redirects
        .filter(move |redirect| !config.listeners.iter().any(|listener| serves(listener, redirect.port)));
    without_listener.map(move |redirect| {
        let port = redirect.port;
        let message = format!("no listener of this config serves https at port {port}");
        let hint = "check that a load balancer or a port mapping forwards this port to a listener with `tls`";
        config.warning_at(&redirect.span, message).with_hint(hint)
    })
}

pub(in crate::config) fn uses(config: &Config, upstream: &str) -> bool {
    config.listeners.iter().any(|listener| forwards_to(listener, upstream))
        || config.routes.iter().any(|route| goes_to(route, upstream))
        || config.mcp.has_upstream(upstream)
        || config.policies.values().any(|policy| authorizes_by(policy, upstream))
}

/// Returns `true` if `policy` asks the servers of this upstream.
fn authorizes_by(policy: &PolicyConfig, upstream: &str) -> bool {
    matches!(policy, PolicyConfig::ForwardAuth(config) if config.upstream == upstream)
}

/// Returns `true` if `listener` forwards TCP connections to this upstream.
pub(in crate::config) fn forwards_to(listener: &ListenerConfig, upstream: &str) -> bool {
    let Some(tcp) = &listener.tcp else { return false };
    tcp.upstream == upstream || tcp.names.iter().any(|(_, of_name)| of_name == upstream)
}

/// Returns `true` if `route` sends requests or mirrored requests to this upstream.
pub(in crate::config) fn goes_to(route: &Route, upstream: &str) -> bool {
    let Action::Forward(action) = &route.action else { return false };
    let is_mirror = action.mirror.as_ref().is_some_and(|mirror| mirror.upstream == upstream);
    is_mirror || responds_for(route, upstream)
}

/// Returns `true` if clients of `route` get responses from this upstream.
fn responds_for(route: &Route, upstream: &str) -> bool {
    let Action::Forward(action) = &route.action else { return false };
    match &action.to {
        ForwardTo::Upstream(name) => name == upstream,
        ForwardTo::Split { sides, .. } => sides.iter().any(|(name, _)| name == upstream),
    }
}

/// Keys of an upstream that apply only to HTTP requests.
pub(in crate::config) struct AboutRequests {
    upstream: String,
    span: Span,
    keys: Vec<&'static str>,
}

impl AboutRequests {
    /// Collects the HTTP keys that each upstream sets.
    pub(in crate::config) fn of(upstreams: &BTreeMap<String, Spanned<RawUpstream>>) -> Vec<Self> {
        let said = upstreams.iter().map(|(name, raw)| {
            let (span, raw) = (raw.span(), raw.get_ref());
            let keys = [
                ("host", raw.host.is_some()),
                ("forwarded", raw.forwarded.is_some()),
                ("forwarded_port", raw.forwarded_port.is_some()),
                ("via", raw.via.is_some()),
                ("ejection.statuses", raw.ejection.statuses.is_some()),
                ("response_header_timeout", raw.response_header_timeout.is_some()),
                ("body_idle_timeout", raw.body_idle_timeout.is_some()),
                ("event_stream_idle_timeout", raw.event_stream_idle_timeout.is_some()),
                ("write_stall_timeout", raw.write_stall_timeout.is_some()),
                ("total_timeout", raw.total_timeout.is_some()),
                ("replay_bytes_max", raw.replay_bytes_max.is_some()),
                ("retry_statuses", raw.retry_statuses.is_some()),
            ];
            let keys = keys.into_iter().filter_map(|(key, is_said)| is_said.then_some(key)).collect();
            Self { upstream: name.clone(), span, keys }
        });
        said.filter(|about| !about.keys.is_empty()).collect()
    }
}

/// Refuses HTTP keys in upstreams that get only TCP connections. Call this function only if the config has no
/// other errors: `routes` contains only valid routes, so an upstream might get HTTP requests from an invalid
/// route.
pub(in crate::config) fn check_usage(
    resolver: &mut Resolver<'_>,
    said: Vec<AboutRequests>,
    listeners: &[ListenerConfig],
    routes: &[Route],
    mcp: &McpSettings,
) {
    for AboutRequests { upstream, span, keys } in said {
        let has_streams = listeners.iter().any(|listener| forwards_to(listener, &upstream));
        let has_requests =
            mcp.has_upstream(&upstream) || routes.iter().any(|route| goes_to(route, &upstream));
        if has_streams && !has_requests {
            let message = format!(
                "`{}` applies to HTTP requests, but this upstream gets only TCP connections",
                keys.join("`, `")
            );
            let failure = resolver.source.failure(span, message);
            resolver
                .failures
                .push(failure.with_hint("remove the key: listeners with `tcp` forward bytes unchanged"));
        }
    }
}
