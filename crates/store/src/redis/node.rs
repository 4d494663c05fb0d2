//! A connection to one server, with limits for its replies.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, Pipeline, ProtocolVersion,
    RedisConnectionInfo, RedisError, RedisFuture, RedisResult, ToRedisArgs, Value,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::reply_limit::LimitedStream;
use super::settings::{StoreCredentials, StoreTls};

/// An open connection to one server. Clones share it. Dropping the last clone closes it.
#[derive(Clone)]
pub(super) struct NodeConnection {
    connection: MultiplexedConnection,
    /// Sends and receives. Would wait for the missing replies of a stalled server without end.
    _driver: Arc<Driver>,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens connections to servers that have the same settings.
#[derive(Clone)]
pub(super) struct NodeConnector {
    pub(super) credentials: StoreCredentials,
    /// `None` without TLS.
    pub(super) tls: Option<StoreTls>,
    pub(super) database: u32,
}

impl NodeConnector {
    /// Connects to a server.
    pub(super) async fn open(
        &self,
        (host, port): (&str, u16),
        config: AsyncConnectionConfig,
    ) -> RedisResult<NodeConnection> {
        let mut settings = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(self.database.into())
            .set_skip_set_lib_name();
        if let Some(user) = &self.credentials.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.credentials.password {
            settings = settings.set_password(password);
        }
        let open = async {
            let stream = LimitedStream::new(self.stream(host, port).await?);
            MultiplexedConnection::new_with_config(&settings, stream, config).await
        };
        let opened = timeout(NODE_TIME, open).await;
        let (connection, driver) = opened.map_err(|_| RedisError::from(io::Error::from(TIMED_OUT)))??;
        let driver = Arc::new(Driver(tokio::spawn(driver).abort_handle()));
        Ok(NodeConnection { connection, _driver: driver })
    }

    async fn stream(&self, host: &str, port: u16) -> RedisResult<NodeStream> {
        let addresses = lookup_host((host, port)).await?;
        let attempts: Vec<_> = addresses.map(|address| Box::pin(TcpStream::connect(address))).collect();
        if attempts.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address").into());
        }
        let (stream, _) = select_ok(attempts).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::pin(stream)) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(client_config(tls).map_err(io::Error::other)?));
        Ok(Box::pin(connector.connect(name, stream).await?))
    }
}

impl NodeConnection {
    pub(super) async fn subscribe(&mut self, channels: impl ToRedisArgs) -> RedisResult<()> {
        self.connection.subscribe(channels).await
    }

    pub(super) async fn unsubscribe(&mut self, channels: impl ToRedisArgs) -> RedisResult<()> {
        self.connection.unsubscribe(channels).await
    }
}

impl ConnectionLike for NodeConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.connection.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

/// The settings for the nodes of a cluster. The client of a cluster connects to new nodes without a reference to our
/// settings, so it gets their number in place of the name of a user.
pub(super) struct ClusterNodes {
    number: u64,
    _connector: Arc<NodeConnector>,
}

impl ClusterNodes {
    pub(super) fn new(connector: NodeConnector) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (number, connector) = (NEXT.fetch_add(1, Ordering::Relaxed), Arc::new(connector));
        clusters().insert(number, Arc::downgrade(&connector));
        Self { number, _connector: connector }
    }

    /// Returns the settings for the client of a cluster. It does not send them to a server.
    pub(super) fn settings(&self) -> RedisConnectionInfo {
        RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_username(self.number.to_string())
    }
}

impl Drop for ClusterNodes {
    fn drop(&mut self) {
        clusters().remove(&self.number);
    }
}

impl Connect for NodeConnection {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let info = info.into_connection_info()?;
            let number = info.redis_settings().username().and_then(|number| number.parse().ok());
            let connector = number.and_then(|number| clusters().get(&number).and_then(Weak::upgrade));
            let (Some(connector), ConnectionAddr::Tcp(host, port)) = (connector, info.addr()) else {
                return Err((ErrorKind::InvalidClientConfig, "the store of this cluster is closed").into());
            };
            connector.open((host, *port), config).await
        })
    }
}

/// Returns the settings of the open clusters.
fn clusters() -> MutexGuard<'static, BTreeMap<u64, Weak<NodeConnector>>> {
    static CLUSTERS: Mutex<BTreeMap<u64, Weak<NodeConnector>>> = Mutex::new(BTreeMap::new());
    CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the settings for TLS.
fn client_config(tls: &StoreTls) -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &tls.roots {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
    } else {
        let mut system = rustls_native_certs::load_native_certs();
        if let Some(error) = system.errors.pop() {
            return Err(error.into());
        }
        for certificate in system.certs {
            roots.add(certificate)?;
        }
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(match &tls.identity {
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>()?;
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
        None => config.with_no_client_auth(),
    })
}

/// A connection with or without TLS.
type NodeStream = Pin<Box<dyn Stream>>;

trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

const TIMED_OUT: io::ErrorKind = io::ErrorKind::TimedOut;

/// Maximum time for a connection to one server.
const NODE_TIME: Duration = Duration::from_secs(1);
