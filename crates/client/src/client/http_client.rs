//! The client: its settings, and how it connects.

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

/// Sends requests, and keeps connections for the next. Clones share them. To be used within a tokio runtime
/// with I/O and time; in several, each has connections of its own.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) config: ClientConfig,
    resolver: Arc<dyn Resolve>,
    pub(super) idle: Arc<Idle>,
}

/// What a client connects to, for how long, and what it keeps.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// For names to be resolved and connections to be made, all addresses together. Default 10 s.
    pub connect: Duration,
    /// Connects here, whatever host the URL names: a Unix socket, or a test's server. Default nothing: the
    /// URL says it.
    pub connect_to: Option<UpstreamAddr>,
    /// How TLS is spoken, for URLs that begin with `https://`: whom to trust, and who we are. Default with
    /// those whom this system trusts, read when it is needed first. [`TlsConnector::load`] makes others.
    pub tls: Option<Arc<TlsConnector>>,
    /// Limits and timeouts of an exchange. `total` includes connecting.
    pub exchange: Config,
    /// What is kept.
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
    /// A client with the defaults.
    pub fn new() -> Self {
        Self::with_config(ClientConfig::default())
    }

    /// A client with other settings.
    pub fn with_config(config: ClientConfig) -> Self {
        let idle = Arc::new(Idle::new(config.pool));
        Self { config, resolver: Arc::new(SystemResolver), idle }
    }

    /// A client of the Unix socket at `path`; the host of a URL is only what the server is told.
    pub fn of_unix_socket(path: impl Into<PathBuf>) -> Self {
        let connect_to = Some(UpstreamAddr::unix(path));
        Self::with_config(ClientConfig { connect_to, ..ClientConfig::default() })
    }

    /// Resolves names in another way than the system does.
    pub fn resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Closes idle connections that have waited too long or that their servers have closed. Those to the
    /// server that is asked next are looked at anyway.
    pub fn sweep(&self) {
        self.idle.sweep();
    }

    /// How many connections wait to be used again.
    pub fn idle_connections(&self) -> usize {
        self.idle.count()
    }

    /// Connects to `destination`. Gives up when a request has taken `total`, which has `started` before.
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

    /// Does the handshake with the server, which must be the one that the URL names.
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
