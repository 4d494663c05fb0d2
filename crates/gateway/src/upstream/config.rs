//! Settings of an upstream.

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
use super::health::status_range::StatusRange;
use super::retry_budget::RetryBudget;
use super::selection::balance_config::Balance;
use super::selection::sticky::Sticky;

/// Settings of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamConfig {
    /// Name of the upstream in logs and metrics.
    pub name: String,
    /// The servers of the upstream. If the upstream has no servers, each request gets 503.
    pub servers: Vec<ServerConfig>,
    /// DNS resolver for the host names of servers. Default: the resolver of the system.
    pub resolver: ResolverConfig,
    /// Interval between DNS lookups if the DNS response has no time to live. The gateway varies the
    /// interval by up to a tenth, and shortens it after a failed lookup. Default 30 s.
    pub resolve_interval: Duration,
    /// Load balancing method. Default: round robin.
    pub balance: Balance,
    /// The sticky cookie, which keeps a client on one server. Default: no cookie.
    pub sticky: Option<Sticky>,
    /// Settings for the ejection of failing servers.
    pub ejection: EjectionConfig,
    /// Settings of active health checks. Default: no health checks.
    pub check: Option<CheckConfig>,
    /// Duration of the slow start of a server that has become available again. During this time, the gateway
    /// increases the server's share of requests from a tenth of its normal share to the full normal share.
    /// With [`Balance::Hash`], the server gets back more and more of its keys, and keeps each key that it got
    /// back. Default: no slow start.
    pub slow_start: Duration,
    /// Version of the PROXY protocol. If set, each connection to a server begins with a PROXY header that
    /// names the client. The gateway reuses such a connection only for requests of the same client
    /// connection. Health checks send a PROXY header without a client. Default: no PROXY header.
    pub proxy_protocol: Option<ProxyVersion>,
    /// HTTP/2 settings. If set, the gateway uses HTTP/2 without negotiation. With
    /// [`negotiates_http2`](Self::negotiates_http2), the server chooses the version. Each HTTP/2 connection
    /// carries as many requests at a time as its server allows. Default: HTTP/1.1.
    pub http2: Option<Http2Config>,
    /// `true` lets the server choose between HTTP/2 and HTTP/1.1 with ALPN on each connection.
    /// [`http2`](Self::http2) must be set, and the TLS connector must offer both protocols. Default
    /// `false`.
    pub negotiates_http2: bool,
    /// TLS settings for connections to the servers. If there is a PROXY header, the gateway sends it before
    /// the TLS handshake. Default: no TLS.
    pub tls: Option<UpstreamTls>,
    /// Maximum time to connect to a server. The following TLS handshake has a separate timeout of the same
    /// length. Default 5 s.
    pub connect_timeout: Duration,
    /// Maximum time without a byte in either direction of a tunnel. Default one hour: protocols with few
    /// messages normally send a keep-alive message at least once per hour.
    pub tunnel_idle: Duration,
    /// Limits and timeouts of HTTP exchanges. The timeout `total` limits the time of a whole request,
    /// including queueing, connecting and retries.
    pub exchange: Config,
    /// Maximum time without a byte in an event stream (`text/event-stream`). Event streams use this timeout
    /// in place of [`content_idle`](thruway_client::Timeouts::content_idle). This timeout does not count as a
    /// failure of the server, because the server may have no events. Default one hour, the same as for
    /// tunnels.
    pub event_stream_idle: Duration,
    /// Limits for the idle connections of each worker. Default: at most 1024 connections to one server, and
    /// at most 4096 connections to all servers together. Idle connections above a limit are closed. Choose
    /// limits above the usual number of requests in flight, so that few requests must open a connection.
    pub pool: PoolConfig,
    /// Maximum number of requests in flight for the upstream. Further requests wait in the queue. Default
    /// 0, which means no limit.
    pub requests_max: usize,
    /// Maximum number of connections to all servers together. Idle connections count, but connections of
    /// health checks do not count. Each worker gets an equal share of this number, but at least one
    /// connection. If the limit is reached, the worker closes its oldest idle connection to open a new one.
    /// If all connections are in use, requests wait in the queue. With HTTP/2, requests also wait for a free
    /// stream. Another server with a free stream may get the request in place of the selected server. The
    /// limit should allow at least one connection from each worker to each server. Default 0, which means no
    /// limit.
    pub connections_max: usize,
    /// Settings of the queue, in which requests wait if no server has capacity.
    pub queue: QueueConfig,
    /// Maximum number of retries of a request at other servers. Only requests that may be sent again are
    /// retried. Default 2.
    pub retries_max: u32,
    /// Statuses of responses after which an idempotent request is retried at another server. The response is
    /// discarded. If no retry is allowed, the client gets the response unchanged. The gateway compares only
    /// statuses of at least 400. Default: no statuses.
    pub retry_statuses: Vec<StatusRange>,
    /// Limit for the number of retries in proportion to the number of requests.
    pub retry_budget: RetryBudget,
    /// Maximum number of request body bytes that the gateway keeps for a retry. The gateway keeps the bytes
    /// until the response begins. If the body is longer, the gateway does not retry the request after sending
    /// a part of its body. Default 64 KiB. With 0, the gateway keeps no bytes.
    pub replay_bytes_max: usize,
}

/// TLS settings of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamTls {
    /// TLS connector, with the trusted root certificates and the client certificate.
    pub connector: Arc<TlsConnector>,
    /// Name that the certificate of each server must contain. Default: the host name or IP address of the
    /// server in the config.
    pub server_name: Option<TlsServerName>,
}

impl UpstreamTls {
    /// Returns the name that the certificate of `server` must contain. Returns `None` if a certificate cannot
    /// contain this name.
    pub(crate) fn name_of(&self, server: &ServerAddr) -> Option<TlsServerName> {
        self.server_name.clone().or_else(|| TlsServerName::new(&server.name()).ok())
    }
}

/// DNS resolver for the host names of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResolverConfig {
    /// The resolver of the gateway, with the addresses of DNS servers. If there are no addresses, the
    /// resolver uses the servers in `resolv.conf`. When the time to live of a DNS response expires, the
    /// resolver looks up the name again. The time between two lookups is at least one second and at most one
    /// hour.
    Dns(Vec<SocketAddr>),
    /// The resolver of the operating system. The system's resolver does not report the time to live.
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

/// Settings of one server of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// Address of the server. A host name stands for all its addresses.
    pub address: ServerAddr,
    /// Relative share of requests, at most [`WEIGHT_MAX`](Self::WEIGHT_MAX). Default 1. With 0, the server
    /// gets only requests with a sticky cookie for this server.
    pub weight: u32,
    /// `true` for a backup server, which gets requests only if no other server is available. Default
    /// `false`.
    pub is_backup: bool,
    /// Maximum number of requests in flight at the server. This maximum also limits the number of
    /// connections in use. Default 0, which means no limit.
    pub requests_max: usize,
}

impl UpstreamConfig {
    /// Returns settings for an upstream with these servers, which have equal weights.
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
            retry_statuses: Vec::new(),
            retry_budget: RetryBudget::default(),
            replay_bytes_max: 64 << 10,
        }
    }
}

impl ServerConfig {
    /// The maximum weight of a server. Higher weights would need more memory for the round robin order of the
    /// servers.
    pub const WEIGHT_MAX: u32 = 256;

    /// Returns settings for a server at `address`, with the default values.
    pub fn new(address: impl Into<ServerAddr>) -> Self {
        Self { address: address.into(), weight: 1, is_backup: false, requests_max: 0 }
    }
}
