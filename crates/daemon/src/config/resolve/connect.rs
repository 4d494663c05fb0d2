//! Tunnels that clients ask for.

use thruway_gateway::{ConnectConfig, HostMatch, PathMatch};

use crate::config::proxies::resolve_networks;
use crate::config::raw::{Period, RawConnect, RawRoute};
use crate::config::resolver::{Resolver, SOME_PERIOD};
use crate::config::spanned::Spanned;

/// Requests for tunnels have neither path nor query: what a route asks of these is asked in vain.
pub(super) fn check_tunnel_route(resolver: &mut Resolver<'_>, raw: &RawRoute, path: Option<&PathMatch>) {
    let Some(connect) = &raw.connect else { return };
    let is_everywhere =
        matches!(path, None | Some(PathMatch::Prefix(_))) && path.is_none_or(|path| path.as_str() == "/");
    if !is_everywhere {
        resolver.refuse_with(connect, "who asks for a tunnel says no path", "write `path = \"/\"`");
    }
    if !raw.query.is_empty() {
        resolver.refuse_with(connect, "who asks for a tunnel says no query", "leave `query` out");
    }
    if raw.methods.is_some() {
        resolver.refuse_with(connect, "tunnels are asked for with CONNECT only", "leave `methods` out");
    }
}

pub(super) fn resolve_connect(resolver: &mut Resolver<'_>, raw: Spanned<RawConnect>) -> ConnectConfig {
    let RawConnect { hosts, ports, private, own_listeners, connect_timeout, idle_timeout } = raw.into_inner();
    let hint = "`[\"*\"]` is for any that everybody on the internet can reach";
    resolver.refuse_empty(&hosts, "tunnels lead to at least one host", hint);
    let hosts = hosts.get_ref().iter().map(|host| resolve_tunnel_host(resolver, host)).collect();
    let default = ConnectConfig::to(hosts);
    if let Some(ports) = &ports {
        resolver.refuse_empty(ports, "tunnels lead to at least one port", "leave it out for 443");
    }
    let ports = ports.map(|ports| {
        ports.into_inner().into_iter().map(|port| resolver.or(Some(port), 443, 1..=u16::MAX)).collect()
    });
    ConnectConfig {
        ports: ports.unwrap_or(default.ports),
        private: resolve_networks(resolver, &private),
        own_listeners,
        connect_timeout: resolver.or(connect_timeout, Period(default.connect_timeout), SOME_PERIOD).0,
        idle: resolver.or(idle_timeout, Period(default.idle), SOME_PERIOD).0,
        ..default
    }
}

fn resolve_tunnel_host(resolver: &mut Resolver<'_>, raw: &Spanned<String>) -> HostMatch {
    if raw.get_ref() == "*" {
        return HostMatch::Any;
    }
    HostMatch::parse(raw.get_ref()).unwrap_or_else(|error| {
        let hint = "write `example.com`, `*.example.com` for all hosts below it, or `*` for any; ports are said by `ports`";
        resolver.refuse_with(raw, error, hint);
        HostMatch::Any
    })
}
