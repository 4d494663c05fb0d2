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
use super::retry_budget::RetryBudget;
use super::selection::balance_config::Balance;
use super::selection::sticky::Sticky;

/// Settings of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamConfig {
    /// Name in logs and metrics.
    pub name: String,
    /// The servers. Without servers, each request gets 503.
    pub servers: Vec<ServerConfig>,
    /// Resolver for the names of servers. Default: the system.
    pub resolver: ResolverConfig,
    /// Interval of DNS lookups if the response has no time to live, plus or minus a tenth. Shorter after a
    /// failed lookup. Default 30 s.
    pub resolve_interval: Duration,
    /// Balancing method. Default: round robin.
    pub balance: Balance,
    /// The cookie that keeps a client on one server. Default none.
    pub sticky: Option<Sticky>,
    /// Settings for the ejection of failing servers.
    pub ejection: EjectionConfig,
    /// Health checks. Default: none.
    pub check: Option<CheckConfig>,
    /// Slow start: time in which a server that has come back gets an increasing share, from a tenth to all of
    /// it. With [`Balance::Hash`], the share is of its keys: each comes back once, and stays. Default: none.
    pub slow_start: Duration,
    /// Begins each connection to a server with a PROXY protocol header that names the client. Such
    /// connections are reused for the same client connection only. Health checks send a header without a
    /// client. Default: none.
    pub proxy_protocol: Option<ProxyVersion>,
    /// HTTP/2 without negotiation, with its settings. Each connection carries as many requests as its server
    /// allows. Default: HTTP/1.1.
    pub http2: Option<Http2Config>,
    /// `true` lets each server choose between HTTP/2 and HTTP/1.1 with ALPN, for each connection;
    /// [`http2`](Self::http2) has the settings of HTTP/2. The connector offers both. Default `false`.
    pub negotiates_http2: bool,
    /// TLS to the servers, after the PROXY header if there is one. Default: none.
    pub tls: Option<UpstreamTls>,
    /// Maximum time to connect to a server, and again for the TLS handshake. Default 5 s.
    pub connect_timeout: Duration,
    /// Maximum time without a byte in either direction of a tunnel. Default one hour: protocols with rare
    /// messages send keep-alives more often.
    pub tunnel_idle: Duration,
    /// Limits and timeouts of exchanges. `total` is the time of a whole request, including queueing,
    /// connecting and retries.
    pub exchange: Config,
    /// Maximum pause of an event stream (`text/event-stream`), in place of
    /// [`content_idle`](thruway_client::Timeouts::content_idle). Its end is not a failure of the server,
    /// which may have no events. Default one hour, as for tunnels.
    pub event_stream_idle: Duration,
    /// Idle connections for each worker. Default 1024 to one server and 4096 in all: with fewer than the
    /// requests in flight, every other request opens a connection.
    pub pool: PoolConfig,
    /// Maximum number of requests in flight for the upstream. Further requests wait in the queue. Default 0:
    /// no limit.
    pub requests_max: usize,
    /// Maximum number of connections to all servers, used and idle ones, without those of checks. Each worker
    /// has its share, at least one. If the limit is reached, the oldest idle connection closes; if all are
    /// used, requests wait in the queue. Over HTTP/2 they also wait for a stream, and if their server has no
    /// connection, another server with a free stream gets them. Allow at least one connection for each server
    /// and worker. Default 0: no limit.
    pub connections_max: usize,
    /// Queue of requests that no server has capacity for.
    pub queue: QueueConfig,
    /// Maximum number of other servers to try if a request fails and may be sent again. Default 2.
    pub retries_max: u32,
    /// Limit for retries as a share of all requests.
    pub retry_budget: RetryBudget,
    /// Number of bytes of a request body that are kept for a retry until the response begins. A longer
    /// request is not retried after some of its body was sent. Default 64 KiB; with 0, nothing is kept.
    pub replay_bytes_max: usize,
}

/// TLS settings of an upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamTls {
    /// Trusted roots and the client certificate.
    pub connector: Arc<TlsConnector>,
    /// Name that certificates must have. Default: the name or address of each server in the config.
    pub server_name: Option<TlsServerName>,
}

impl UpstreamTls {
    /// Returns the name that `server` must have in its certificate. A Unix socket has none.
    pub(crate) fn name_of(&self, server: &ServerAddr) -> Option<TlsServerName> {
        self.server_name.clone().or_else(|| TlsServerName::new(&server.name()).ok())
    }
}

/// Resolver for the names of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResolverConfig {
    /// Addresses of DNS servers; if empty, the servers in `resolv.conf`. A name is resolved again when its
    /// time to live is over, at most every second and at least every hour.
    Dns(Vec<SocketAddr>),
    /// The system's resolver, as configured on this machine. It does not report the time to live.
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
    /// The address. A name stands for all its addresses.
    pub address: ServerAddr,
    /// Relative share of requests, up to [`WEIGHT_MAX`](Self::WEIGHT_MAX). Default 1; with 0, only clients
    /// with a sticky cookie.
    pub weight: u32,
    /// `true` if it gets requests only if no other server can. Default `false`.
    pub is_backup: bool,
    /// Maximum number of requests in flight, which also limits its used connections. Default 0: no limit.
    pub requests_max: usize,
}

impl UpstreamConfig {
    /// Returns an upstream whose servers have equal weights.
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
    /// The maximum weight. It bounds the memory for one round of all servers.
    pub const WEIGHT_MAX: u32 = 256;

    /// Returns a server at `address` with the default settings.
    pub fn new(address: impl Into<ServerAddr>) -> Self {
        Self { address: address.into(), weight: 1, is_backup: false, requests_max: 0 }
    }
}
