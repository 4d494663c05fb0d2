//! Opens connections to the store.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo as _, ProtocolVersion, PushInfo,
    RedisError, RedisResult, Value,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::failures::describe;
use super::node::{ClusterNodes, NodeConnection, NodeConnector};
use super::scripts::{CLAIM, Connection, Request};
use super::settings::{StoreConfig, StoreCredentials};
use super::url::StoreLayout;

/// Receives pushed messages of a connection.
pub(super) type PushSender = Arc<dyn Fn(PushInfo) -> Result<(), redis::aio::SendError> + Send + Sync>;

/// Opens connections, at most one in 100 ms.
pub(super) struct Connector {
    config: StoreConfig,
    /// Time of the next attempt.
    next: Mutex<Instant>,
}

impl Connector {
    pub(super) fn new(config: StoreConfig) -> Self {
        // The process has one kind of TLS algorithms. If there is a default already, it stays.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Self { config, next: Mutex::new(Instant::now()) }
    }

    pub(super) const fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Opens a connection for operations, and checks that no other fleet uses the prefix.
    pub(super) async fn connect(&self) -> Result<Connection, StoreConnectError> {
        let open = async {
            let mut connection = self.open().await?;
            self.claim(&mut connection).await?;
            Ok(connection)
        };
        self.attempt(open).await
    }

    /// Opens a connection for operations without further checks.
    pub(super) async fn connect_unchecked(&self) -> Result<Connection, StoreConnectError> {
        self.attempt(self.open()).await
    }

    /// Opens a connection to one server, for subscriptions. In a cluster, each node delivers all messages.
    pub(super) async fn connect_to_node(
        &self,
        push: Option<PushSender>,
    ) -> Result<NodeConnection, StoreConnectError> {
        let open = async {
            match &self.config.url.layout {
                StoreLayout::Sentinel(master) => self.open_master(master, push).await,
                StoreLayout::Single | StoreLayout::Cluster => {
                    let mut result = Err(StoreConnectError::new("the URL has no host"));
                    for host in &self.config.url.hosts {
                        result = self.open_node(host, &self.config.credentials, push.clone()).await;
                        if result.is_ok() {
                            break;
                        }
                    }
                    result
                }
            }
        };
        self.attempt(open).await
    }

    /// Waits for the time of the next attempt, and limits its duration.
    async fn attempt<T>(
        &self,
        open: impl Future<Output = Result<T, StoreConnectError>>,
    ) -> Result<T, StoreConnectError> {
        let time = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let time = (*next).max(Instant::now());
            *next = time + ATTEMPT_EVERY;
            time
        };
        sleep_until(time).await;
        let result = timeout(ATTEMPT_TIME, open).await;
        result.unwrap_or_else(|_| Err(StoreConnectError::new("the store did not respond in time")))
    }

    async fn open(&self) -> Result<Connection, StoreConnectError> {
        match &self.config.url.layout {
            StoreLayout::Single => {
                let host = &self.config.url.hosts[0];
                self.open_node(host, &self.config.credentials, None).await.map(Connection::Node)
            }
            StoreLayout::Sentinel(master) => self.open_master(master, None).await.map(Connection::Node),
            StoreLayout::Cluster => self.open_cluster().await,
        }
    }

    async fn open_node(
        &self,
        host: &(String, u16),
        credentials: &StoreCredentials,
        push: Option<PushSender>,
    ) -> Result<NodeConnection, StoreConnectError> {
        // The caller limits the time of each operation.
        let mut settings = AsyncConnectionConfig::new().set_response_timeout(None);
        if let Some(push) = push {
            settings = settings.set_push_sender(move |info| push(info));
        }
        let opened = self.node(credentials).open((&host.0, host.1), settings).await;
        opened.map_err(|error| explain(&error, &format!("{}:{}", host.0, host.1)))
    }

    fn node(&self, credentials: &StoreCredentials) -> NodeConnector {
        let StoreConfig { url, tls, .. } = &self.config;
        let tls = url.is_tls.then(|| tls.clone());
        NodeConnector { credentials: credentials.clone(), tls, database: url.database }
    }

    /// Connects to the server that Sentinel reports as the master.
    async fn open_master(
        &self,
        master: &str,
        push: Option<PushSender>,
    ) -> Result<NodeConnection, StoreConnectError> {
        let host = self.find_master(master).await?;
        let mut node = self.open_node(&host, &self.config.credentials, push).await?;
        let role: Value = role(&mut node).await.map_err(|error| explain(&error, &host.0))?;
        if is_master(&role) {
            return Ok(node);
        }
        let reason = format!("Sentinel reports {}:{}, but this server is a replica", host.0, host.1);
        Err(StoreConnectError::new(&reason))
    }

    async fn find_master(&self, master: &str) -> Result<(String, u16), StoreConnectError> {
        let mut result = Err(StoreConnectError::new("the URL has no host"));
        for sentinel in &self.config.url.hosts {
            let answer = timeout(SENTINEL_TIME, self.ask_sentinel(sentinel, master)).await;
            result = answer.unwrap_or_else(|_| {
                let reason = format!("Sentinel at {}:{} did not respond in time", sentinel.0, sentinel.1);
                Err(StoreConnectError::new(&reason))
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }

    async fn ask_sentinel(
        &self,
        sentinel: &(String, u16),
        master: &str,
    ) -> Result<(String, u16), StoreConnectError> {
        let name = format!("{}:{}", sentinel.0, sentinel.1);
        // Sentinel has no databases.
        let connector = NodeConnector { database: 0, ..self.node(&self.config.sentinel_credentials) };
        let opened = connector.open((&sentinel.0, sentinel.1), AsyncConnectionConfig::new()).await;
        let mut connection = opened.map_err(|error| explain(&error, &name))?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(master);
        let address: Option<(String, u16)> =
            command.query_async(&mut connection).await.map_err(|error| explain(&error, &name))?;
        address.ok_or_else(|| {
            StoreConnectError::new(&format!("Sentinel at {name} does not know the master `{master}`"))
        })
    }

    async fn open_cluster(&self) -> Result<Connection, StoreConnectError> {
        let explain = |error: RedisError| explain(&error, &self.config.url.to_string());
        let settings = ClusterNodes::new(self.node(&self.config.credentials));
        let node = |(host, port): &(String, u16)| {
            let info = ConnectionAddr::Tcp(host.clone(), *port).into_connection_info()?;
            Ok(info.set_redis_settings(settings.settings()))
        };
        let nodes: Vec<_> =
            self.config.url.hosts.iter().map(node).collect::<RedisResult<_>>().map_err(explain)?;
        let client = ClusterClient::builder(nodes)
            .response_timeout(ATTEMPT_TIME)
            .retries(CLUSTER_RETRIES)
            .min_retry_wait(5)
            .max_retry_wait(50)
            .use_protocol(ProtocolVersion::RESP3)
            .build()
            .map_err(explain)?;
        let connection = client.get_async_generic_connection::<NodeConnection>().await.map_err(explain)?;
        Ok(Connection::Cluster(connection, Arc::new(settings)))
    }

    /// Stores the identity of this fleet under the prefix.
    ///
    /// # Errors
    /// The store has the identity of another fleet.
    pub(super) async fn claim(&self, connection: &mut Connection) -> Result<(), StoreConnectError> {
        if self.config.identities.is_empty() {
            return Ok(());
        }
        let lifetime = u64::try_from(CLAIM_TIME.as_millis()).unwrap_or(u64::MAX);
        let mut request = Request::script(&CLAIM, identity_key(&self.config.prefix)).number(lifetime);
        for identity in &self.config.identities {
            request = request.arg(identity.clone());
        }
        let result = request.send(connection).await;
        match result.map_err(|error| explain(&error, &self.config.url.to_string()))? {
            Value::BulkString(other) if other.is_empty() => Ok(()),
            _ => Err(StoreConnectError::other_fleet(&self.config.prefix)),
        }
    }
}

/// Returns the key with the identity of the fleet.
pub(super) fn identity_key(prefix: &str) -> String {
    format!("{prefix}:v1:fleet:identity")
}

pub(super) async fn role(node: &mut NodeConnection) -> RedisResult<Value> {
    redis::cmd("ROLE").query_async(node).await
}

pub(super) fn is_master(role: &Value) -> bool {
    matches!(role, Value::Array(values) if values.first() == Some(&Value::BulkString(b"master".to_vec())))
}

/// Reason why a connection to the store failed, with the next step for the operator. It contains no secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreConnectError {
    reason: String,
}

impl StoreConnectError {
    pub(super) fn new(reason: &str) -> Self {
        Self { reason: reason.to_owned() }
    }

    pub(super) fn other_fleet(prefix: &str) -> Self {
        Self::new(&format!(
            "another fleet with a different key uses the prefix `{prefix}`: set another `prefix`, or the same \
             `key` on all gateways"
        ))
    }
}

impl fmt::Display for StoreConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for StoreConnectError {}

/// Adds the address and the next step to an error.
pub(super) fn explain(error: &RedisError, address: &str) -> StoreConnectError {
    let text = match error.code() {
        // The text of the server explains the command `HELLO`, which the operator has not written.
        Some("NOAUTH") => "NOAUTH the server requires a password".to_owned(),
        _ => describe(error),
    };
    let contains = |part: &str| text.contains(part);
    let is_refused = matches!(error.code(), Some("WRONGPASS" | "NOAUTH"));
    let step = if is_refused || error.kind() == ErrorKind::AuthenticationFailed {
        ": check `user` and `password`"
    } else if error.code() == Some("NOPERM") || contains("can't run this command") || contains("can't access")
    {
        ": give the user the permissions that the guide lists"
    } else if error.code() == Some("OOM") {
        ": increase `maxmemory` of the store, or remove other data"
    } else if error.kind() == ErrorKind::RESP3NotSupported || contains("'HELLO'") || contains("`HELLO`") {
        ": the store must be Redis 6.2 or Valkey 7.2, or a newer version"
    } else if contains("cluster support disabled") {
        ": the server is no cluster, so use `redis://`"
    } else if contains("unknown command 'SENTINEL'") || contains("unknown command `SENTINEL`") {
        ": the server is no Sentinel, so use `redis://`"
    } else if contains("unknown command") {
        ": the store must provide this command"
    } else if contains("the server sent") {
        ": check that the server is Redis or Valkey; if the port uses TLS, use `rediss://`"
    } else if contains("InvalidContentType") || contains("corrupt message") {
        ": the port does not use TLS, so use `redis://`, or set the port for TLS"
    } else if contains("certificate") {
        ": check `ca_file` and the name of the host"
    } else if contains("failed to lookup address") {
        ": check the name of the host"
    } else if contains("Connection refused") {
        ": check the host and the port"
    } else if contains("timed out") {
        ": check the host and the port, and whether the port uses TLS"
    } else if error.is_connection_dropped() {
        ": the server closed the connection; if the port uses TLS, use `rediss://`"
    } else {
        ""
    };
    StoreConnectError { reason: format!("{address}: {text}{step}") }
}

/// Minimum time between two attempts.
const ATTEMPT_EVERY: Duration = Duration::from_millis(100);

/// Maximum time of an attempt.
const ATTEMPT_TIME: Duration = Duration::from_secs(2);

/// Maximum time of a question to Sentinel.
const SENTINEL_TIME: Duration = Duration::from_millis(500);

/// Number of retries in a cluster after a redirection or a failure of a node.
const CLUSTER_RETRIES: u32 = 3;

/// Time for which the store keeps the identity of a fleet without a running gateway.
const CLAIM_TIME: Duration = Duration::from_hours(24);
