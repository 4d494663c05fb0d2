//! The connections of a bridge to its server. Several clients use the shared server. A dedicated server
//! serves one session, or one call at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use thruway_mcp::schema::{ClientCapabilities, Implementation, LoggingLevel};
use thruway_mcp_client::{
    EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions, ServerNotification,
};
use thruway_mcp_server::backend::{
    Change, DroppedMessages, Holder, LimitReached, ServerCore, Session, Share, Shares,
};
use tokio::time::{Instant, sleep, timeout};

use super::caller_servers::CallerServers;
use super::credentials::{CallerCredential, MemberCredentials};
use super::logs::{self, LogListeners};
use super::member_link::{MemberLink, public_change, task_prefix};
use super::options::BridgeOptions;
use super::server_pool::{PoolKey, ReservedServer, ServerPool};
use super::session_requester::{self, OriginClient};
use super::session_state::SessionState;
use super::tasks::{TaskIdMap, Tasks, TasksMax};
use super::upstream::{RECONNECT_PAUSE, Reconnecting, Upstream};

/// Creates an MCP client that connects to the server.
pub(crate) type Connect = Arc<dyn Fn(McpClientBuilder) -> Result<McpClient, McpClientError> + Send + Sync>;

/// The bridge's own MCP server, to which clients connect. Set after the first connection to the server behind
/// the bridge. Forwards notifications to the clients.
pub(crate) type Near = Arc<OnceLock<Weak<ServerCore>>>;

/// Settings and limits for connections to the server. The connections of both eras count toward the same
/// limit [`servers_max`](BridgeOptions::servers_max).
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) options: BridgeOptions,
    pub(crate) connect: Connect,
    pub(crate) near: Near,
    pub(crate) capacity: Arc<Shares>,
    pub(crate) dropped: Arc<DroppedMessages>,
    /// `true` if the bridge opens no more connections, because it shuts down.
    pub(crate) is_ending: Arc<AtomicBool>,
    /// The index of the server among the members of the federation. 0 for a bridge.
    pub(crate) slot: usize,
    /// The link to the federation that the server belongs to. `None` for a bridge.
    pub(crate) member: Option<Arc<dyn MemberLink>>,
    /// The access tokens for the server. `None` if the server needs none.
    pub(crate) credentials: Option<Arc<MemberCredentials>>,
}

/// All connections of a bridge to its server in one era.
pub(super) struct Upstreams {
    connect: Connect,
    options: McpClientOptions,
    /// The era of the server, or `Auto` before the bridge has detected the era.
    pub(super) era: EraChoice,
    has_server_per_session: bool,
    /// Maximum time to wait for the client's answer to a question of the server.
    question_wait: Duration,
    near: Near,
    /// The tasks that the bridge tracks (MCP revision 2025-11-25).
    pub(super) tasks: Arc<Tasks>,
    dropped: Arc<DroppedMessages>,
    shared: ArcSwapOption<Upstream>,
    /// Time of the last attempt to connect to the shared server. Locked during each attempt.
    connecting: tokio::sync::Mutex<Option<Instant>>,
    reconnecting: Reconnecting,
    /// The dedicated servers of all sessions, which `close` must close.
    of_sessions: Mutex<Vec<Weak<Upstream>>>,
    pool: Arc<ServerPool>,
    /// The connections of callers with their own tokens.
    of_callers: Arc<CallerServers>,
    credentials: Option<Arc<MemberCredentials>>,
    /// Limits the number of dedicated servers.
    capacity: Arc<Shares>,
    servers_max: usize,
    last_id: AtomicU64,
    /// Time after which the bridge closes an unused dedicated server.
    idle: Duration,
    /// `true` if the background task that closes unused servers runs.
    is_swept: AtomicBool,
    /// `true` if the server is a child process or another server on a stream. Other replicas of the bridge then have
    /// other processes, and do not get the notifications of this one.
    is_on_stream: Arc<AtomicBool>,
    /// `true` if the bridge opens no more connections, because it shuts down.
    is_ending: Arc<AtomicBool>,
    /// The link to the federation that the server belongs to. `None` for a bridge.
    member: Option<Arc<dyn MemberLink>>,
}

impl Upstreams {
    /// Creates the state for the era `era`, without connecting to the server.
    pub(super) fn new(connector: &Connector, era: EraChoice) -> Self {
        let options = &connector.options;
        Self {
            connect: connector.connect.clone(),
            options: options.client.clone(),
            era,
            has_server_per_session: options.has_server_per_session,
            question_wait: options.question_wait,
            near: connector.near.clone(),
            tasks: Tasks::new(
                TasksMax { all: options.tasks_max, of_client: options.tasks_per_client_max },
                task_prefix(connector.member.as_deref()),
            ),
            dropped: connector.dropped.clone(),
            shared: ArcSwapOption::empty(),
            connecting: tokio::sync::Mutex::const_new(None),
            reconnecting: Reconnecting::default(),
            of_sessions: Mutex::default(),
            pool: ServerPool::new(options.server.session_idle),
            of_callers: CallerServers::new(options.server.session_idle),
            credentials: connector.credentials.clone(),
            capacity: connector.capacity.clone(),
            servers_max: options.servers_max,
            last_id: AtomicU64::new(0),
            idle: options.server.session_idle,
            is_swept: AtomicBool::new(false),
            is_on_stream: Arc::default(),
            is_ending: connector.is_ending.clone(),
            member: connector.member.clone(),
        }
    }

    /// Returns an unused id for a connection, a call or a session.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Connects to the server for the first time, to learn its capabilities.
    pub(super) fn connect_first(&self) -> Result<Arc<Upstream>, McpClientError> {
        self.connect_to_share()
    }

    fn connect_to_share(&self) -> Result<Arc<Upstream>, McpClientError> {
        let connection_id = self.next_id();
        let listeners = Arc::<LogListeners>::default();
        let builder = self.notifying_all(&listeners).shared_by_clients();
        let client = self.client(connection_id, None, None, None, builder)?;
        Ok(Upstream::new(client, connection_id, None, listeners, None))
    }

    /// Returns a text that identifies the process of the shared server (see [`Upstream::process_id`]). Empty
    /// while there is no connection.
    pub(super) fn process_id(&self) -> String {
        self.shared.load().as_ref().map(|upstream| upstream.process_id()).unwrap_or_default()
    }

    /// Returns `true` if the server is not reached over HTTP but over a stream, such as the pipes of a child
    /// process.
    pub(super) fn are_on_stream(&self) -> bool {
        self.shared.load().as_ref().is_some_and(|upstream| upstream.client.is_on_stream())
    }

    /// Stores `upstream` as the shared server.
    pub(super) fn put(&mut self, upstream: Arc<Upstream>) {
        self.shared.store(Some(upstream));
        *self.connecting.get_mut() = Some(Instant::now());
    }

    /// Returns the shared server, which serves clients that cannot answer questions. Returns an error until
    /// [`RECONNECT_PAUSE`] after the start of a closed connection.
    pub(super) async fn plain(&self) -> Result<Arc<Upstream>, McpClientError> {
        self.plain_after(RECONNECT_PAUSE).await
    }

    /// Returns the shared server. Returns an error until `pause` after the start of a closed connection.
    pub(super) async fn plain_after(&self, pause: Duration) -> Result<Arc<Upstream>, McpClientError> {
        if let Some(upstream) = self.usable() {
            return Ok(upstream);
        }
        let mut connected = self.connecting.lock().await;
        if let Some(upstream) = self.usable() {
            return Ok(upstream);
        }
        let gone = self.shared.load_full();
        if gone.is_some() && connected.is_some_and(|at| self.reconnecting.is_delayed_by(at, pause)) {
            return Err(McpClientError::Closed);
        }
        *connected = Some(Instant::now());
        let upstream = self.connect_to_share()?;
        if let Some(gone) = gone {
            upstream.log_as(&gone);
        }
        self.shared.store(Some(upstream.clone()));
        Ok(upstream)
    }

    /// Returns the shared server for requests of a caller: the server for all callers, or the connection with the
    /// credential of this caller.
    pub(super) async fn shared(
        &self,
        credential: Option<&Arc<CallerCredential>>,
    ) -> Result<Arc<Upstream>, McpClientError> {
        let Some(credential) = credential else { return self.plain().await };
        let upstream = self.of_callers.connected(credential, |closed| {
            let (connection_id, listeners) = (self.next_id(), Arc::<LogListeners>::default());
            let builder = self.notifying_of_resources(&listeners);
            let client = self.client(connection_id, None, None, Some(credential), builder)?;
            let upstream = Upstream::new(client, connection_id, None, listeners, Some(credential.clone()));
            closed.inspect(|closed| upstream.log_as(closed));
            Ok(upstream)
        })?;
        self.sweep_from_now_on();
        Ok(upstream)
    }

    /// Notes that the server is back after a loss, so that requests connect again without a pause.
    pub(super) fn note_returned(&self) {
        self.reconnecting.note_returned();
    }

    fn usable(&self) -> Option<Arc<Upstream>> {
        self.shared.load_full().filter(|upstream| !upstream.is_closed())
    }

    /// Returns the server for the requests of a session. If the client can answer questions, the session
    /// gets a dedicated server.
    pub(super) async fn of_session(
        &self,
        session: &Arc<Session>,
        state: &Arc<SessionState>,
        credential: Option<&Arc<CallerCredential>>,
    ) -> Result<Arc<Upstream>, McpClientError> {
        let is_dedicated = self.has_server_per_session || accepts_questions(&session.client_capabilities());
        let upstream = if is_dedicated {
            self.own_of(session, state, credential)?
        } else {
            self.shared(credential).await?
        };
        if !is_dedicated && state.is_new_listener(&upstream) {
            self.listen_to_logs(&upstream, session, state);
            if credential.is_some() && session.log_level() != Some(LoggingLevel::Info) {
                // The connection of the caller may be new, so the server does not know the level yet.
                let upstream = upstream.clone();
                tokio::spawn(async move { upstream.log_for_listeners().await.ok() });
            }
        }
        watch_again(session, state, &upstream);
        Ok(upstream)
    }

    /// Makes a session receive log messages of `upstream`.
    fn listen_to_logs(&self, upstream: &Upstream, session: &Arc<Session>, state: &SessionState) {
        upstream.log_listeners.add_session(session, self.task_ids(state, upstream.connection_id()));
    }

    /// Returns the translation between a session's task ids and the server's task ids. `connection_id`
    /// identifies the connection to the server. Returns `None` if the bridge does not forward tasks for this
    /// session.
    fn task_ids(&self, state: &SessionState, connection_id: u64) -> Option<TaskIdMap> {
        state.owner().map(|owner| TaskIdMap::new(self.tasks.clone(), owner.clone(), connection_id))
    }

    /// Makes the server send the log messages that a session wants, in addition to the log messages that
    /// other sessions want.
    pub(super) async fn log_for(
        &self,
        upstream: &Upstream,
        session: &Arc<Session>,
        state: &SessionState,
    ) -> Result<(), McpClientError> {
        self.listen_to_logs(upstream, session, state);
        upstream.log_for_listeners().await
    }

    /// Returns the dedicated server of a session. If the connection to this server is closed or has another
    /// credential, the bridge connects again. Returns an error until
    /// [`RECONNECT_PAUSE`] after the start of the closed connection.
    fn own_of(
        &self,
        session: &Arc<Session>,
        state: &SessionState,
        credential: Option<&Arc<CallerCredential>>,
    ) -> Result<Arc<Upstream>, McpClientError> {
        let mut own = state.upstream();
        match &*own {
            Some(other) if !other.has_credential(credential) => other.release_slot(),
            Some(upstream) if !upstream.is_closed() => return Ok(upstream.clone()),
            Some(gone) if self.reconnecting.is_delayed_by(gone.since(), RECONNECT_PAUSE) => {
                return Err(McpClientError::Closed);
            }
            Some(gone) => gone.release_slot(),
            None => {}
        }
        let upstream = self.connect_for(session, state, credential)?;
        if let Some(gone) = &*own {
            upstream.log_as(gone);
        }
        *own = Some(upstream.clone());
        Ok(upstream)
    }

    fn connect_for(
        &self,
        session: &Arc<Session>,
        state: &SessionState,
        credential: Option<&Arc<CallerCredential>>,
    ) -> Result<Arc<Upstream>, McpClientError> {
        let share = self.reserve_capacity(session.holder()).map_err(too_many)?;
        let (info, capabilities) = (session.client_info(), session.client_capabilities());
        let connection_id = self.next_id();
        let task_ids = self.task_ids(state, connection_id);
        let on_log = logs::handler_of_session(session, task_ids.clone(), &self.dropped);
        let requester = OriginClient { session: Arc::downgrade(session), wait: self.question_wait, task_ids };
        let builder = McpClient::builder().on_notification(self.notify_session(session));
        let builder = builder.on_log(on_log).answers_by(Arc::new(requester));
        let client = self.client(connection_id, info, Some(capabilities), credential, builder)?;
        self.sweep_from_now_on();
        let upstream = Upstream::new(client, connection_id, Some(share), Arc::default(), credential.cloned());
        let mut of_sessions = self.of_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        of_sessions.retain(|upstream| upstream.strong_count() > 0);
        of_sessions.push(Arc::downgrade(&upstream));
        Ok(upstream)
    }

    /// Returns a handler that forwards notifications of a session's dedicated server to that session.
    fn notify_session(&self, session: &Arc<Session>) -> impl Fn(ServerNotification) + Send + Sync + 'static {
        let (session, dropped) = (Arc::downgrade(session), self.dropped.clone());
        let member = self.member.clone();
        move |notification| {
            let Some(session) = session.upgrade() else { return };
            if let ServerNotification::Other { method, params } = &notification {
                session_requester::send_out_of_band(&session, method, params, &dropped);
            } else if let Some(change) = change(notification) {
                if let Some(member) = &member {
                    member.note_change(&change);
                }
                session.subscription.note(public_change(member.as_deref(), change));
            }
        }
    }

    /// Reserves a slot for another dedicated server of the caller `holder`. Closes an idle server if all
    /// slots are in use. Closes no server if `holder` has reached the per-caller limit.
    fn reserve_capacity(&self, holder: &Holder) -> Result<Share, LimitReached> {
        self.pool.sweep();
        match self.capacity.take(holder, 1) {
            Err(LimitReached::Full) => {
                self.pool.end_one();
                self.capacity.take(holder, 1)
            }
            outcome => outcome,
        }
    }

    /// Returns an idle dedicated server with the key `pool_key`, or connects to a new one. The server stays
    /// in the pool, so later calls with the same key can use it. The server counts toward the per-caller
    /// limit of `holder`.
    pub(super) async fn idle_or_new(
        &self,
        pool_key: PoolKey,
        holder: &Holder,
    ) -> Result<Arc<Upstream>, McpClientError> {
        Ok(self.reserve(pool_key, holder).await?.give_back())
    }

    /// Reserves a dedicated server with the key `pool_key` for one call. The server counts toward the
    /// per-caller limit of `holder`.
    pub(super) async fn reserve(
        &self,
        pool_key: PoolKey,
        holder: &Holder,
    ) -> Result<ReservedServer, McpClientError> {
        let until = Instant::now() + RESERVE_TIMEOUT;
        let share = loop {
            if let Some(reserved) = self.pool.take(&pool_key, holder) {
                return Ok(reserved);
            }
            let refusal = match self.reserve_capacity(holder) {
                Ok(share) => break share,
                Err(refusal) => refusal,
            };
            if self.are_all_kept(refusal, holder) || Instant::now() >= until {
                return Err(too_many(refusal));
            }
            // A server that becomes idle keeps its slot, so `released` does not report this event. Therefore,
            // the loop also polls for idle servers.
            let _ = timeout(POOL_POLL_INTERVAL, self.capacity.released()).await;
        };
        let capabilities = serde_json::from_str(&pool_key.capabilities);
        let capabilities = capabilities.map_err(|_| McpClientError::ArgumentsInvalid)?;
        let connection_id = self.next_id();
        let listeners = Arc::<LogListeners>::default();
        let (credential, builder) = (pool_key.credential.clone(), self.notifying_all(&listeners));
        let client = self.client(connection_id, None, Some(capabilities), credential.as_ref(), builder)?;
        self.sweep_from_now_on();
        let upstream = Upstream::new(client, connection_id, Some(share), listeners, credential);
        Ok(self.pool.reserve(pool_key, upstream))
    }

    /// Returns `true` if sessions and subscriptions use all dedicated servers, so the end of a call cannot
    /// free a server. If the caller `holder` has reached its per-caller limit, checks only the servers of
    /// this caller.
    fn are_all_kept(&self, refusal: LimitReached, holder: &Holder) -> bool {
        let (max, holder) = match refusal {
            LimitReached::Full => (self.servers_max, None),
            LimitReached::HolderHasShare => (self.capacity.held_by(holder), Some(holder)),
        };
        let is_counted = |upstream: &Upstream| holder.is_none_or(|holder| upstream.is_of(holder));
        let of_sessions = self.of_sessions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_sessions = of_sessions.iter().filter_map(Weak::upgrade);
        of_sessions.filter(|upstream| is_counted(upstream)).count() + self.pool.watched(is_counted) >= max
    }

    /// Starts the background task that closes unused servers and sessions. Without this task, the bridge
    /// would close them only when the next request arrives.
    fn sweep_from_now_on(&self) {
        if self.is_swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let (near, period) = (self.near.clone(), self.idle / 4);
        let (pool, of_callers) = (self.pool.clone(), self.of_callers.clone());
        tokio::spawn(async move {
            loop {
                sleep(period.max(SWEEP_MIN)).await;
                let Some(core) = near.get().and_then(Weak::upgrade) else { return };
                core.end_idle_sessions();
                pool.sweep();
                of_callers.sweep();
            }
        });
    }

    fn client(
        &self,
        connection_id: u64,
        info: Option<Implementation>,
        capabilities: Option<ClientCapabilities>,
        credential: Option<&Arc<CallerCredential>>,
        builder: McpClientBuilder,
    ) -> Result<McpClient, McpClientError> {
        if self.is_ending.load(Ordering::Acquire) {
            return Err(McpClientError::Closed);
        }
        let options = &self.options;
        let options = McpClientOptions {
            client_info: info.unwrap_or_else(|| options.client_info.clone()),
            capabilities: capabilities.unwrap_or_default(),
            era: self.era,
            log_name: self
                .member
                .as_deref()
                .map(|member| member.name().to_owned())
                .or(options.log_name.clone()),
            ..options.clone()
        };
        let tasks = self.tasks.clone();
        let builder = builder
            .on_task(Arc::new(move |notification| tasks.send_notification(connection_id, notification)));
        let builder = match (credential, &self.credentials) {
            (Some(credential), _) => builder.token_source(credential.clone()),
            (None, Some(credentials)) => builder.token_source(credentials.own()),
            (None, None) => builder,
        };
        let client = (self.connect)(builder.options(options))?;
        self.is_on_stream.store(client.is_on_stream(), Ordering::Relaxed);
        Ok(client)
    }

    /// Returns a builder for a connection that several clients use. The connection forwards the server's
    /// notifications and log messages to all clients that want them. Shares changes of a child process with the other
    /// replicas.
    fn notifying_all(&self, listeners: &Arc<LogListeners>) -> McpClientBuilder {
        self.notifying(listeners, |_| true)
    }

    /// Returns a builder for the connection of one caller. The connection forwards only changes of resources,
    /// because another connection forwards the changes of lists.
    fn notifying_of_resources(&self, listeners: &Arc<LogListeners>) -> McpClientBuilder {
        self.notifying(listeners, |change| matches!(change, Change::Resource(_)))
    }

    fn notifying(
        &self,
        listeners: &Arc<LogListeners>,
        is_forwarded: impl Fn(&Change) -> bool + Send + Sync + 'static,
    ) -> McpClientBuilder {
        let (near, member) = (self.near.clone(), self.member.clone());
        let is_on_stream = self.is_on_stream.clone();
        let on_log = listeners.handler(&self.dropped);
        McpClient::builder().on_log(on_log).on_notification(move |notification| {
            let Some(change) = change(notification).filter(&is_forwarded) else { return };
            if let Some(member) = &member {
                member.note_change(&change);
            }
            if let Some(core) = near.get().and_then(Weak::upgrade) {
                let change = public_change(member.as_deref(), change);
                if is_on_stream.load(Ordering::Relaxed) {
                    core.announce_and_share(&change);
                } else {
                    core.announce(&change);
                }
            }
        })
    }

    /// Closes all connections permanently: the bridge does not connect again.
    pub(super) async fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.close().await;
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        let of_sessions =
            std::mem::take(&mut *self.of_sessions.lock().unwrap_or_else(PoisonError::into_inner));
        let of_sessions = of_sessions.iter().filter_map(Weak::upgrade);
        let all = self.shared.swap(None).into_iter().chain(of_sessions).chain(self.pool.end_all());
        let all: Vec<_> = all.chain(self.of_callers.end_all()).collect();
        let closing = all.iter().map(|upstream| tokio::spawn(upstream.client.clone().close()));
        for closed in closing.collect::<Vec<_>>() {
            // An error means that the task panicked, so nothing is left to wait for.
            let _ = closed.await;
        }
    }
}

/// Subscribes again for a session, if `upstream` has replaced a closed connection. Then reports a change of
/// every watched resource and list, because the client may have missed changes.
fn watch_again(session: &Arc<Session>, state: &Arc<SessionState>, upstream: &Arc<Upstream>) {
    let mut watches = state.watches();
    // All subscriptions of a session use the same server, so check only one of them.
    if watches.values().next().is_none_or(|watch| watch.is_of(upstream)) {
        return;
    }
    let gone = std::mem::take(&mut *watches);
    drop(watches);
    let (session, state, upstream) = (session.clone(), state.clone(), upstream.clone());
    tokio::spawn(async move {
        let watching = async {
            for uri in gone.into_keys() {
                // Ignore errors, because a resource that no longer exists cannot change.
                if let Ok(watch) = upstream.watch(&uri, session.holder()).await {
                    state.watches().insert(uri, watch);
                }
            }
            session.subscription.note_everything();
        };
        tokio::select! {
            () = watching => {}
            // An unresponsive server must not keep the session alive.
            () = session.ended() => {}
        }
    });
}

fn change(notification: ServerNotification) -> Option<Change> {
    match notification {
        ServerNotification::ToolsListChanged => Some(Change::Tools),
        ServerNotification::PromptsListChanged => Some(Change::Prompts),
        ServerNotification::ResourcesListChanged => Some(Change::Resources),
        ServerNotification::ResourceUpdated(updated) => Some(Change::Resource(updated.uri.into())),
        _ => None,
    }
}

fn too_many(refusal: LimitReached) -> McpClientError {
    match refusal {
        LimitReached::Full => McpClientError::TooManyServers,
        LimitReached::HolderHasShare => McpClientError::TooManyServersOfCaller,
    }
}

/// Returns `true` if the client supports elicitation, sampling or roots.
pub(super) const fn accepts_questions(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.is_some() || capabilities.sampling.is_some() || capabilities.roots.is_some()
}

/// Minimum interval at which the background task closes unused servers and sessions.
const SWEEP_MIN: Duration = Duration::from_millis(50);

/// Maximum time that a call waits for a dedicated server.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which a waiting call looks for an idle server.
const POOL_POLL_INTERVAL: Duration = Duration::from_millis(50);
