//! The client, its settings, and its code for connecting.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thruway_net::Stream;
use thruway_net::tls::{TlsConnector, TlsFailure, TlsServerName};
use tokio::time::timeout;

use super::destination::Destination;
use super::drive::now;
use super::error::ClientError;
use super::idle::Idle;
use crate::{
    Config, ConnectError, PoolConfig, Resolve, SystemResolver, UpstreamAddr, UpstreamStream, connect_any,
    secure,
};

/// Sends requests, and keeps connections for later requests. Clones share the connections. Use a client
/// within a tokio runtime that has I/O and time enabled. Runtimes do not share connections.
///
/// ```no_run
/// # async fn example() -> Result<(), thruway_client::ClientError> {
/// use thruway_client::Client;
///
/// let client = Client::new();
/// let keys = client.get("http://127.0.0.1:8080/keys").send().await?.collect(1 << 20).await?;
/// let answer = client
///     .post("http://127.0.0.1:8080/mcp")
///     .field("Content-Type", "application/json")
///     .content(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
///     .send()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) config: ClientConfig,
    resolver: Arc<dyn Resolve>,
    pub(super) idle: Arc<Idle>,
}

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Maximum time to resolve the name and to connect, for all addresses together. The default is 10 s.
    pub connect: Duration,
    /// Address to which the client connects for every URL, such as a Unix socket or a test server. With
    /// the default `None`, the URL determines the address.
    pub connect_to: Option<UpstreamAddr>,
    /// The TLS settings for `https://` URLs: trusted root certificates and client certificate. By
    /// default, the client uses the system's trust store, which it reads at first use.
    /// [`TlsConnector::load`] creates other settings.
    pub tls: Option<Arc<TlsConnector>>,
    /// Limits and timeouts of an exchange. The timeout `total` includes the time to connect.
    pub exchange: Config,
    /// The limits of idle connections.
    pub pool: PoolConfig,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            connect_to: None,
            tls: None,
            exchange: Config::default(),
            pool: PoolConfig::default(),
        }
    }
}

impl Client {
    /// Returns a client with the default settings.
    pub fn new() -> Self {
        Self::with_config(ClientConfig::default())
    }

    /// Returns a client with these settings.
    pub fn with_config(config: ClientConfig) -> Self {
        let idle = Arc::new(Idle::new(config.pool));
        Self { config, resolver: Arc::new(SystemResolver), idle }
    }

    /// Returns a client that connects to the Unix socket at `path`. The host of a URL appears only in the
    /// `Host` field.
    pub fn of_unix_socket(path: impl Into<PathBuf>) -> Self {
        let connect_to = Some(UpstreamAddr::unix(path));
        Self::with_config(ClientConfig { connect_to, ..ClientConfig::default() })
    }

    /// Uses `resolver` instead of the system's resolver.
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Closes connections that have been idle too long or that their servers have closed. Each request
    /// also checks the idle connections to its server.
    pub fn sweep(&self) {
        self.idle.sweep();
    }

    /// Returns the number of idle connections.
    pub fn idle_connections(&self) -> usize {
        self.idle.count()
    }

    /// Connects to `destination`. `started` is the start of the request. `total` limits the time from the
    /// start to the end of the request.
    pub(super) async fn connect(
        &self,
        total: Option<Duration>,
        destination: &Destination,
        started: Duration,
    ) -> Result<UpstreamStream, ClientError> {
        let total = total.unwrap_or(Duration::MAX);
        let within = self.config.connect.min(total.saturating_sub(now().saturating_sub(started)));
        let began = now();
        let addresses = match &self.config.connect_to {
            Some(address) => vec![address.clone()],
            None => self.resolve(destination, within).await?,
        };
        let left = within.saturating_sub(now().saturating_sub(began));
        let connected = connect_any(&addresses, left).await;
        let (stream, _) = connected.map_err(ClientError::Connect)?;
        let left = within.saturating_sub(now().saturating_sub(began));
        if destination.is_https() { self.secure(stream, destination, left).await } else { Ok(stream.into()) }
    }

    /// Performs the TLS handshake with the server in the URL.
    async fn secure(
        &self,
        stream: Stream,
        destination: &Destination,
        within: Duration,
    ) -> Result<UpstreamStream, ClientError> {
        let name = TlsServerName::new(destination.host()).map_err(|_| ClientError::UrlInvalid)?;
        let connector = match &self.config.tls {
            Some(connector) => connector.clone(),
            None => TlsConnector::system().map_err(|_| ClientError::Tls(TlsFailure::Incompatible))?,
        };
        let secured = secure(stream, &connector, &name, within).await;
        secured.map_err(|error| match error {
            ConnectError::Tls(failure) => ClientError::Tls(failure),
            _ => ClientError::Tls(TlsFailure::Ended),
        })
    }

    async fn resolve(
        &self,
        destination: &Destination,
        within: Duration,
    ) -> Result<Vec<UpstreamAddr>, ClientError> {
        let host = destination.host();
        let resolved = timeout(within, self.resolver.resolve(host, destination.port())).await;
        let resolved = resolved.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        resolved.map_err(|error| match error.kind() {
            kind @ (io::ErrorKind::NotFound | io::ErrorKind::TimedOut) => {
                ClientError::NameNotResolved { host: host.into(), kind }
            }
            _ => ClientError::NameNotLookedUp { host: host.into(), reason: error.to_string().into() },
        })
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}
