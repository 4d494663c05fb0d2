//! Tunnels that clients open with CONNECT.

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::{ConnectConfig, HostMatch};

use crate::config::resolver::{Resolver, SOME_PERIOD};
use crate::config::server::resolve_networks;
use crate::config::values::{Period, Spanned};

/// Tunnels that clients open with CONNECT.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawConnect {
    /// Hosts to which clients may open tunnels, at least one: `example.com`, `*.example.com`, an address,
    /// or `*` for any host. Requests for other hosts get 403.
    pub(in crate::config) hosts: Spanned<Vec<Spanned<String>>>,
    /// Ports to which clients may open tunnels. Default: 443.
    pub(in crate::config) ports: Option<Spanned<Vec<Spanned<u16>>>>,
    /// Private networks that tunnels may reach, such as `10.1.0.0/16`. Requests for all other private
    /// addresses get 403. All addresses of this machine count as private. Default: none.
    #[serde(default)]
    pub(in crate::config) private: Vec<Spanned<String>>,
    /// `true` allows tunnels to listeners of this server, if `private` includes their addresses. Risk:
    /// clients can then also reach the `admin` listener. Default: false.
    #[serde(default)]
    pub(in crate::config) own_listeners: bool,
    /// Maximum time to resolve the host name and to connect. Default: 5s.
    pub(in crate::config) connect_timeout: Option<Spanned<Period>>,
    /// Maximum time in which no byte passes through the tunnel. After this time, Thruway closes the tunnel.
    /// Default: 10m.
    pub(in crate::config) idle_timeout: Option<Spanned<Period>>,
}

pub(in crate::config) fn resolve_connect(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawConnect>,
) -> ConnectConfig {
    let RawConnect { hosts, ports, private, own_listeners, connect_timeout, idle_timeout } = raw.into_inner();
    let hint = "`[\"*\"]` allows all hosts with public addresses";
    resolver.refuse_empty(&hosts, "`hosts` needs at least one host", hint);
    let hosts = hosts.get_ref().iter().map(|host| resolve_tunnel_host(resolver, host)).collect();
    let default = ConnectConfig::to(hosts);
    if let Some(ports) = &ports {
        resolver.refuse_empty(
            ports,
            "`ports` needs at least one port",
            "remove the key to allow only port 443",
        );
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
        let hint = "write `example.com`, `*.example.com` for all subdomains, or `*` for any host; write ports in `ports`";
        resolver.refuse_with(raw, error, hint);
        HostMatch::Any
    })
}
