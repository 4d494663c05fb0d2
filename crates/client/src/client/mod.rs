//! A client for those who want an answer and no relay: URLs in, responses out.
//!
//! It is one value for a whole program, whichever threads its tasks run on: it keeps the idle connections behind a lock,
//! which is held for no more than taking one. Redirects are not followed, content codings not undone, nothing is kept.
//!
//! ```no_run
//! # async fn example() -> Result<(), thruway_client::ClientError> {
//! use thruway_client::Client;
//!
//! let client = Client::new();
//! let keys = client.get("http://127.0.0.1:8080/keys").send().await?.collect(1 << 20).await?;
//! let answer = client
//!     .post("http://127.0.0.1:8080/mcp")
//!     .field("Content-Type", "application/json")
//!     .content(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
//!     .send()
//!     .await?;
//! # Ok(())
//! # }
//! ```

// the request
mod destination;
mod request;

// the exchange
mod drive;

// the response
mod response;
mod events;

mod error;

// what is kept
mod document;

use std::fmt;
use std::future::poll_fn;
use std::hash::BuildHasherDefault;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_message::{Method, OwnedResponseHead};
use thruway_net::Stream;
use thruway_net::tls::{TlsConnector, TlsFailure, TlsServerName};
use tokio::runtime::{self, Handle};
use tokio::time::timeout;

use crate::{
    Config, ConnectError, Connection, Error, Pool, PoolConfig, Resolve, ResponseEvent, SystemResolver,
    UpstreamAddr, UpstreamStream, connect_any, secure,
};
use destination::{ByOrigin, Origin};
use drive::{Driven, now};

pub use destination::Destination;
pub use document::{DocumentConfig, DocumentUrl, FetchedDocument, InvalidDocumentUrl, KeptDocument};
pub use error::ClientError;
pub use events::{Event, Events};
pub use request::Request;
pub use response::Response;

/// Sends requests, and keeps connections for the next. Clones share them. To be used within a tokio runtime with I/O and time; in
/// several, each has connections of its own.
#[derive(Clone, Debug)]
pub struct Client {
    config: ClientConfig,
    resolver: Arc<dyn Resolve>,
    idle: Arc<Idle>,
}

/// What a client connects to, for how long, and what it keeps.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// For names to be resolved and connections to be made, all addresses together. Default 10 s.
    pub connect: Duration,
    /// Connects here, whatever host the URL names: a Unix socket, or a test's server. Default nothing: the URL says it.
    pub connect_to: Option<UpstreamAddr>,
    /// How TLS is spoken, for URLs that begin with `https://`: whom to trust, and who we are. Default with those whom this system trusts, read when
    /// it is needed first. [`TlsConnector::load`] makes others.
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

/// The idle connections, by the runtime that reads and writes them: one that has ended, or stands still, would leave an exchange
/// without an answer.
struct Idle {
    pools: Mutex<Vec<(Option<runtime::Id>, OriginPool)>>,
    config: PoolConfig,
}

type OriginPool = Pool<Origin, UpstreamStream, BuildHasherDefault<ByOrigin>>;

impl Client {
    /// A client with the defaults.
    pub fn new() -> Self {
        Self::with_config(ClientConfig::default())
    }

    /// A client with other settings.
    pub fn with_config(config: ClientConfig) -> Self {
        let idle = Arc::new(Idle { pools: Mutex::default(), config: config.pool });
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

    /// A GET of `url`.
    pub fn get(&self, url: &str) -> Request<'_> {
        self.request(Method::Get, url)
    }

    /// A POST to `url`.
    pub fn post(&self, url: &str) -> Request<'_> {
        self.request(Method::Post, url)
    }

    /// A request of any method.
    pub fn request(&self, method: Method<'static>, url: &str) -> Request<'_> {
        Request::new(self, method, Destination::parse(url), self.config.exchange.timeouts)
    }

    /// A request of any method, to where others go too.
    pub fn request_to(&self, method: Method<'static>, destination: &Destination) -> Request<'_> {
        Request::new(self, method, Ok(destination.clone()), self.config.exchange.timeouts)
    }

    /// Closes idle connections that have waited too long or that their servers have closed. Those to the server that is
    /// asked next are looked at anyway.
    pub fn sweep(&self) {
        self.idle.lock().iter_mut().for_each(|(_, pool)| pool.sweep(now()));
    }

    /// How many connections wait to be used again.
    pub fn idle_connections(&self) -> usize {
        self.idle.lock().iter().map(|(_, pool)| pool.len()).sum()
    }

    async fn execute(&self, request: &Request<'_>) -> Result<Response, ClientError> {
        let destination = request.destination.as_ref().map_err(Clone::clone)?;
        let head = request.head(destination)?;
        let (started, is_idempotent) = (now(), request.is_idempotent);
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        if let Some(connection) = self.idle.acquire(runtime, destination.origin()) {
            match self.exchange(request, destination, &head, connection, started, runtime).await {
                Err(error) if error.retry().blames_nobody(true) && error.retry().allows(is_idempotent) => {}
                outcome => return Ok(outcome?),
            }
        }
        // Apart, as most requests find a connection that waits.
        let stream = Box::pin(self.connect(request, destination, started)).await?;
        let connection = Connection::new(stream, &self.config.exchange);
        Ok(self.exchange(request, destination, &head, connection, started, runtime).await?)
    }

    /// Sends the request on `connection`, and waits for the final head.
    async fn exchange(
        &self,
        request: &Request<'_>,
        destination: &Destination,
        head: &[u8],
        connection: Connection,
        started: Duration,
        runtime: Option<runtime::Id>,
    ) -> Result<Response, Error> {
        let mut exchange =
            connection.start(request.to_send(), started, |output| output.extend_from_slice(head));
        exchange.set_timeouts(request.timeouts);
        let mut driven = Driven::new(exchange, request.content.clone());
        let (head, length) = poll_fn(|cx| {
            driven.poll_with(cx, |event| match event {
                ResponseEvent::Final(head, length) => Some((OwnedResponseHead::from(head), length)),
                _ => None,
            })
        })
        .await?;
        let home = Home { idle: self.idle.clone(), runtime, destination: destination.clone() };
        Ok(Response::new(head, length, driven, home))
    }

    async fn connect(
        &self,
        request: &Request<'_>,
        destination: &Destination,
        started: Duration,
    ) -> Result<UpstreamStream, ClientError> {
        let total = request.timeouts.total.unwrap_or(Duration::MAX);
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

/// Where a connection belongs when it is not used.
struct Home {
    idle: Arc<Idle>,
    runtime: Option<runtime::Id>,
    destination: Destination,
}

impl Home {
    fn take_back(&self, connection: Connection) {
        self.idle.release(self.runtime, self.destination.origin(), connection);
    }
}

impl Idle {
    fn acquire(&self, runtime: Option<runtime::Id>, origin: &Origin) -> Option<Connection> {
        let mut pools = self.lock();
        let (_, pool) = pools.iter_mut().find(|(one, _)| *one == runtime)?;
        pool.acquire(origin, now())
    }

    fn release(&self, runtime: Option<runtime::Id>, origin: &Origin, connection: Connection) {
        let mut pools = self.lock();
        if let Some((_, pool)) = pools.iter_mut().find(|(one, _)| *one == runtime) {
            return pool.release(origin, connection, now());
        }
        // What others have not used for too long may be of runtimes that have ended.
        pools.iter_mut().for_each(|(_, pool)| pool.sweep(now()));
        pools.retain(|(_, pool)| !pool.is_empty());
        let mut pool = Pool::with_hasher(self.config, BuildHasherDefault::new());
        pool.release(origin, connection, now());
        pools.push((runtime, pool));
    }

    /// What is done meanwhile cannot be interrupted half-way by a panic of somebody else.
    fn lock(&self) -> MutexGuard<'_, Vec<(Option<runtime::Id>, OriginPool)>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} idle connections", self.lock().iter().map(|(_, pool)| pool.len()).sum::<usize>())
    }
}
