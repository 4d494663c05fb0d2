//! An upstream, as it is wanted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::http2::Http2Config;
use thruway_client::{Config, DnsResolver, PoolConfig, Resolve, SystemResolver, UpstreamAddr};
use thruway_net::ProxyVersion;
use thruway_net::tls::{TlsConnector, TlsServerName};

use super::address::ServerAddr;
use super::connections::queue::QueueConfig;
use super::health::checks::config::CheckConfig;
use super::health::ejection::EjectionConfig;
use super::retry_budget::RetryBudget;
use super::selection::balance::Balance;
use super::selection::sticky::Sticky;

/// An upstream, as it is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamConfig {
    /// What it is called in logs and metrics.
    pub name: String,
    /// Its servers; without any, every request is answered 503.
    pub servers: Vec<ServerConfig>,
    /// Who is asked for the addresses of names. Default the system.
    pub resolver: ResolverConfig,
    /// After how long names of servers are resolved again where nobody says for how long an answer holds, a
    /// tenth more or less; sooner after a failure. Default 30 s.
    pub resolve_interval: Duration,
    /// How the next server is found. Default round robin.
    pub balance: Balance,
    /// The cookie that brings a client to the same server again. Default none.
    pub sticky: Option<Sticky>,
    /// When a server that fails gets no more requests.
    pub ejection: EjectionConfig,
    /// How servers are asked how they are. Default not.
    pub check: Option<CheckConfig>,
    /// For how long a server that has come back gets more and more requests, from a tenth of its share to all
    /// of it. With [`Balance::Hash`], these are more and more of its keys: each comes back once, and stays.
    /// Default not at all.
    pub slow_start: Duration,
    /// Whether each connection to its servers begins with a header of the PROXY protocol, which tells who the
    /// client is; then connections are used again for the same connection of a client only. Checks say that
    /// they are the gateway's own. Default not.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Whether its servers speak HTTP/2 without having negotiated it, and how connections to them are kept.
    /// Each is shared by as many requests as its server allows. Default not: HTTP/1.1.
    pub http2: Option<Http2Config>,
    /// Whether each server chooses between HTTP/2 and HTTP/1.1 when TLS is negotiated (ALPN), for each
    /// connection anew; then [`http2`](Self::http2) says how those of HTTP/2 are kept. The connector offers
    /// both. Default not.
    pub negotiates_http2: bool,
    /// How TLS is spoken with its servers, behind the header of the PROXY protocol if there is one. Default
    /// not.
    pub tls: Option<UpstreamTls>,
    /// How long a server may take to accept a connection, and as long again for the handshake of TLS. Default
    /// 5 s.
    pub connect_timeout: Duration,
    /// How long a connection that has become a tunnel may be without an octet in either direction. Default an
    /// hour: what speaks rarely says more often that it is still there.
    pub tunnel_idle: Duration,
    /// Limits and timeouts of exchanges. `total` is that of a whole request: to wait for a server that has
    /// room, to connect, and to be sent again included.
    pub exchange: Config,
    /// How long a stream of events (`text/event-stream`) may be without an octet, in the place of
    /// [`content_idle`](thruway_client::Timeouts::content_idle). One that ends so says nothing against its
    /// server: there may be no news. Default an hour, as for tunnels.
    pub event_stream_idle: Duration,
    /// How many connections wait to be used again, for each worker. Default 1024 to one server and 4096 in
    /// all: with fewer than there are requests at a time, every other request pays for a new connection.
    pub pool: PoolConfig,
    /// How many requests all servers together may be answering; those beyond wait as those do for which no
    /// server has room. Default 0 for any number.
    pub requests_max: usize,
    /// How many connections there may be to all servers together, used and idle ones, of requests and of
    /// streams; those of checks do not count. Each worker has its share, at least one. For one that is needed
    /// the one goes that has waited longest to be used again; if all are used, requests wait as those do for
    /// which no server has room. Over HTTP/2 they wait for a stream too, and where the server that they are
    /// for has no connection, another that has a stream answers: best one for each server and worker. Default
    /// 0 for any number.
    pub connections_max: usize,
    /// What requests do for which no server has room.
    pub queue: QueueConfig,
    /// How many more servers are tried when a request fails and may be sent again. Default 2.
    pub retries_max: u32,
    /// How many requests may be sent again, of all.
    pub retry_budget: RetryBudget,
    /// How many octets of content that comes after the head of its request are kept, until the response
    /// begins, so that the request may be sent again. Requests with more are not, once some of it was taken.
    /// Default 64 KiB; with 0, nothing is kept.
    pub replay_bytes_max: usize,
}

/// How TLS is spoken with the servers of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamTls {
    /// Whom to trust, and who we are.
    pub connector: Arc<TlsConnector>,
    /// The name that certificates must have. Default what the config calls each server: its name, or its
    /// address.
    pub server_name: Option<TlsServerName>,
}

impl UpstreamTls {
    /// The name that `server` must have. A Unix socket has none that anybody would certify.
    pub(crate) fn name_of(&self, server: &ServerAddr) -> Option<TlsServerName> {
        self.server_name.clone().or_else(|| TlsServerName::new(&server.name()).ok())
    }
}

/// Who is asked for the addresses of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResolverConfig {
    /// Servers of names: those of `resolv.conf` if empty. They say for how long an answer holds, and are
    /// asked again then; not more often than every second, and not less than every hour.
    Dns(Vec<SocketAddr>),
    /// The system, as it is set up to, which does not say that.
    System,
}

impl ResolverConfig {
    pub(crate) fn resolver(&self) -> Arc<dyn Resolve> {
        match self {
            Self::Dns(nameservers) => Arc::new(DnsResolver::with_nameservers(nameservers.iter().copied())),
            Self::System => Arc::new(SystemResolver),
        }
    }
}

/// One server of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// Where it is. A name is as many servers as it has addresses.
    pub address: ServerAddr,
    /// How many requests it gets, in relation to the others, up to [`WEIGHT_MAX`](Self::WEIGHT_MAX). Default
    /// 1; with 0, only those that a sticky cookie brings.
    pub weight: u32,
    /// Whether it gets requests only if none of those that are no backups may get any. Default no.
    pub is_backup: bool,
    /// How many requests it may be answering at a time, and so how many of its connections are in use.
    /// Default 0 for any number.
    pub requests_max: usize,
}

impl UpstreamConfig {
    /// An upstream of servers of the same weight.
    pub fn new(name: impl Into<String>, servers: impl IntoIterator<Item = UpstreamAddr>) -> Self {
        Self {
            name: name.into(),
            servers: servers.into_iter().map(ServerConfig::new).collect(),
            resolver: ResolverConfig::System,
            resolve_interval: Duration::from_secs(30),
            balance: Balance::default(),
            sticky: None,
            ejection: EjectionConfig::default(),
            check: None,
            slow_start: Duration::ZERO,
            proxy_protocol: None,
            http2: None,
            negotiates_http2: false,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            tunnel_idle: Duration::from_hours(1),
            exchange: Config::default(),
            event_stream_idle: Duration::from_hours(1),
            pool: PoolConfig { idle_per_address_max: 1024, idle_max: 4096, ..PoolConfig::default() },
            requests_max: 0,
            connections_max: 0,
            queue: QueueConfig::default(),
            retries_max: 2,
            retry_budget: RetryBudget::default(),
            replay_bytes_max: 64 << 10,
        }
    }
}

impl ServerConfig {
    /// The largest weight: one round of all servers lies in memory.
    pub const WEIGHT_MAX: u32 = 256;

    /// The server at `address`.
    pub fn new(address: impl Into<ServerAddr>) -> Self {
        Self { address: address.into(), weight: 1, is_backup: false, requests_max: 0 }
    }
}
