//! The connection to one member: connects in the background, and again after the member was lost.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::json;
use thruway_mcp::Revision;
use thruway_mcp::federated::{EndpointNames, ListKind, MemberName, UriRewriter};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{JsonObject, ListCapability, ResourcesCapability, ServerCapabilities};
use thruway_mcp_client::McpClientError;
use thruway_mcp_server::backend::Change;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::call_stats::MemberCounters;
use super::catalog::Catalog;
use super::fetch::ListConnection;
use super::limits::CallLimits;
use super::member_lists::{ConnectionFuture, ListSource};
use crate::bridge::{
    BridgeCore, Connector, MemberCredentials, MemberLink, StartedTask, is_unreachable, member_error,
};

/// The connection to one member.
pub(super) struct MemberConnection {
    pub(super) name: MemberName,
    /// Counts the calls of the member.
    pub(super) counters: Arc<MemberCounters>,
    connector: Connector,
    link: Arc<Link>,
    /// Set after the first successful attempt to connect.
    bridge: OnceLock<Arc<BridgeCore>>,
    state: watch::Sender<ConnectionState>,
    /// `true` after the first connection.
    has_connected: AtomicBool,
    /// Maximum time that a request waits until a running attempt to connect has ended.
    wait: Duration,
}

/// The state of the connection to a member.
#[derive(Clone, Debug)]
pub(super) enum ConnectionState {
    /// The gateway is trying to connect.
    Connecting {
        /// The error of the previous attempt, if any.
        last_error: Option<Arc<str>>,
    },
    Connected,
    /// The last attempt to connect has failed.
    Failed {
        error: Arc<str>,
        /// Time of the next attempt.
        retry_at: Instant,
    },
}

/// Receives events of a member from the code that forwards requests.
pub(super) struct Link {
    name: MemberName,
    slot: usize,
    names: Arc<EndpointNames>,
    limits: Arc<CallLimits>,
    catalog: OnceLock<Weak<Catalog>>,
    /// Notified when the member was unreachable for a request.
    unreachable: Notify,
    /// Notified when the member has reported a change. The member is then reachable.
    reported: Notify,
}

impl Link {
    /// Returns the link of the member with the index `slot`.
    pub(super) fn new(names: &Arc<EndpointNames>, slot: usize, limits: &Arc<CallLimits>) -> Arc<Self> {
        Arc::new(Self {
            name: names.member_name(slot).clone(),
            slot,
            names: names.clone(),
            limits: limits.clone(),
            catalog: OnceLock::new(),
            unreachable: Notify::new(),
            reported: Notify::new(),
        })
    }

    fn catalog(&self) -> Option<Arc<Catalog>> {
        self.catalog.get().and_then(Weak::upgrade)
    }
}

impl MemberLink for Link {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn note_change(&self, change: &Change) {
        self.reported.notify_waiters();
        if let Some(catalog) = self.catalog() {
            catalog.invalidate_change(self.slot, change);
        }
    }

    fn note_failure(&self, error: &McpClientError) {
        if is_unreachable(error) {
            self.unreachable.notify_one();
        }
    }

    fn note_task(&self, task: StartedTask) {
        // A caller can call only tools with a public name.
        if let Ok(public) = self.names.public(self.slot, ListKind::Tools, &task.tool.clone()) {
            self.limits.begin_task(self.slot, &public, task);
        }
    }

    fn note_end_of_task(&self, id: &str) {
        self.limits.end_task(self.slot, id);
    }

    fn uris(&self) -> Option<&UriRewriter> {
        self.names.uris_of(self.slot)
    }
}

impl MemberConnection {
    /// Creates the state of a member. Call [`run`](Self::run) to connect.
    pub(super) fn new(name: MemberName, connector: Connector, link: Arc<Link>, wait: Duration) -> Arc<Self> {
        let state = watch::Sender::new(ConnectionState::Connecting { last_error: None });
        let counters = Arc::default();
        let has_connected = AtomicBool::new(false);
        Arc::new(Self {
            name,
            counters,
            connector,
            link,
            bridge: OnceLock::new(),
            state,
            has_connected,
            wait,
        })
    }

    /// Sets the catalog that this member invalidates when its lists change.
    pub(super) fn invalidate_in(&self, catalog: &Arc<Catalog>) {
        self.link.catalog.get_or_init(|| Arc::downgrade(catalog));
    }

    /// Returns the access tokens for the member. Returns `None` if requests to the member need no token.
    pub(super) const fn credentials(&self) -> Option<&Arc<MemberCredentials>> {
        self.connector.credentials.as_ref()
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.state.borrow().clone()
    }

    /// Returns a receiver for changes of the state. The gateway also reports a change if the member has
    /// restarted while it was connected.
    pub(super) fn connection(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Returns the code that forwards requests to the member, if the gateway has ever connected to the member.
    pub(super) fn bridge(&self) -> Option<&Arc<BridgeCore>> {
        self.bridge.get()
    }

    /// Returns `true` if each replica of the gateway has its own process of the member. Returns `true` while the
    /// gateway has never connected to the member.
    pub(super) fn is_of_replica(&self) -> bool {
        self.bridge.get().is_none_or(|bridge| bridge.is_on_stream())
    }

    /// Returns the protocol revision of the member, if known.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.bridge.get().map(|bridge| bridge.revision())
    }

    /// Returns the capabilities that the member offers to clients of `revision`. Until the gateway knows them,
    /// returns all capabilities that the member may turn out to have.
    pub(super) fn capabilities(&self, revision: Revision) -> ServerCapabilities {
        match self.bridge.get() {
            Some(bridge) => bridge.capabilities(revision),
            None => presumed_capabilities(),
        }
    }

    /// Returns the code that forwards requests to the member. Waits while the gateway is connecting to the
    /// member.
    ///
    /// # Errors
    /// The gateway is not connected to the member.
    pub(super) async fn connected(&self) -> Result<Arc<BridgeCore>, Error> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, ConnectionState::Connecting { .. }));
        // Waiting cannot fail, because `self` owns the sender.
        let settled = timeout(self.wait, settled).await.ok().and_then(Result::ok).map(|state| state.clone());
        match (settled, self.bridge.get()) {
            (Some(ConnectionState::Connected), Some(bridge)) => Ok(bridge.clone()),
            (Some(ConnectionState::Failed { error, retry_at }), _) => {
                Err(self.unavailable(&&*error, retry_at.saturating_duration_since(Instant::now())))
            }
            _ => Err(self.unavailable(&"the gateway is still connecting to the server", PAUSE_MAX)),
        }
    }

    /// Returns the revision of the member if the gateway is connected to it.
    pub(super) fn connected_revision(&self) -> Option<Revision> {
        let is_connected = matches!(*self.state.borrow(), ConnectionState::Connected);
        self.revision().filter(|_| is_connected)
    }

    fn unavailable(&self, reason: &dyn fmt::Display, retry_after: Duration) -> Error {
        let name = self.name.as_str();
        let retry_after_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
        member_error(name, &format_args!("the server is unavailable: {reason}"))
            .with_data(json!({"server": name, "retryAfterMs": retry_after_ms}))
    }

    /// Keeps the gateway connected to the member. Does not return.
    pub(super) async fn run(self: Arc<Self>) {
        let mut pause = PAUSE_MIN;
        loop {
            let error: Arc<str> = match self.connect().await {
                Ok(()) => {
                    self.note_connected();
                    let connected_at = Instant::now();
                    let error = self.watch().await;
                    tracing::warn!(server = %self.name, "lost the MCP server: {error}");
                    if connected_at.elapsed() > PAUSE_MAX {
                        // The connection lasted for some time, so the next attempt follows without a pause.
                        pause = PAUSE_MIN;
                        self.begin_attempt(error.to_string().into());
                        continue;
                    }
                    error.to_string().into()
                }
                Err(error) => error.to_string().into(),
            };
            self.note_failed(&error, pause);
            self.pause(pause).await;
            self.begin_attempt(error);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits for `pause`, or until the member reports a change: the MCP client may connect before the end of the
    /// pause, and then reports changes.
    async fn pause(&self, pause: Duration) {
        let mut reported = pin!(self.link.reported.notified());
        reported.as_mut().enable();
        // A member that reports changes all the time must not cause a busy loop.
        sleep(PAUSE_MIN).await;
        let _ = timeout(pause.saturating_sub(PAUSE_MIN), reported).await;
    }

    fn begin_attempt(&self, last_error: Arc<str>) {
        self.state.send_replace(ConnectionState::Connecting { last_error: Some(last_error) });
    }

    async fn connect(&self) -> Result<(), McpClientError> {
        let connecting = async {
            if let Some(bridge) = self.bridge.get() {
                return bridge.check_server().await;
            }
            let (bridge, _) = BridgeCore::connect(self.connector.clone()).await?;
            self.bridge.get_or_init(|| bridge);
            Ok(())
        };
        // The first start of a child process may download its program.
        let attempt_max = if self.bridge.get().is_some() { ATTEMPT_MAX } else { FIRST_ATTEMPT_MAX };
        let mut connecting = pin!(timeout(attempt_max, connecting));
        let outcome = if let Ok(outcome) = timeout(SLOW_AFTER, connecting.as_mut()).await {
            outcome
        } else {
            self.note_slow(attempt_max);
            connecting.await
        };
        outcome.unwrap_or(Err(McpClientError::TimedOut))
    }

    /// Logs that the first attempt takes long.
    fn note_slow(&self, attempt_max: Duration) {
        if matches!(*self.state.borrow(), ConnectionState::Connecting { last_error: None }) {
            tracing::info!(
                server = %self.name,
                "still connecting to the MCP server after {SLOW_AFTER:?}; the attempt ends after {attempt_max:?}"
            );
        }
    }

    /// Waits until the member is lost. Returns the reason.
    async fn watch(&self) -> McpClientError {
        let Some(bridge) = self.bridge.get() else { return McpClientError::Closed };
        watch_lists(bridge);
        let mut process = bridge.process_id();
        loop {
            // The notification is only a hint, because the failed request may have been a special case.
            let _ = timeout(CHECK_INTERVAL, self.link.unreachable.notified()).await;
            match timeout(ATTEMPT_MAX, bridge.check_server()).await {
                Ok(Err(error)) if is_unreachable(&error) => return error,
                // A server that answers slowly or with an error is not lost.
                _ => {}
            }
            let current = bridge.process_id();
            if current != process {
                process = current;
                tracing::info!(server = %self.name, "the MCP server has restarted");
                self.state.send_replace(ConnectionState::Connected);
                self.announce_everything(bridge, true);
                watch_lists(bridge);
            }
        }
    }

    fn note_connected(&self) {
        tracing::info!(server = %self.name, "connected to the MCP server");
        if let Some(bridge) = self.bridge.get() {
            bridge.note_returned();
        }
        self.state.send_replace(ConnectionState::Connected);
        if let Some(bridge) = self.bridge.get() {
            // When a replica starts, its members are new, but the clients of the other replicas lack nothing.
            let is_return = self.has_connected.swap(true, Ordering::Relaxed);
            self.announce_everything(bridge, is_return);
        }
    }

    /// Logs the first failure in a row, and later failures only for debugging.
    fn note_failed(&self, error: &Arc<str>, pause: Duration) {
        let retry_at = Instant::now() + pause;
        let previous = self.state.send_replace(ConnectionState::Failed { error: error.clone(), retry_at });
        match previous {
            ConnectionState::Connecting { last_error: Some(_) } => {
                tracing::debug!(server = %self.name, "cannot connect to the MCP server: {error}");
            }
            _ => {
                tracing::warn!(server = %self.name, "cannot connect to the MCP server, trying again: {error}");
            }
        }
    }

    /// Notifies clients that the lists of the member may have changed. With `is_shared`, also notifies the clients of
    /// other replicas, because a load balancer may send their requests to this replica.
    fn announce_everything(&self, bridge: &BridgeCore, is_shared: bool) {
        if let Some(catalog) = self.link.catalog() {
            catalog.invalidate_member(self.link.slot);
        }
        let Some(core) = self.connector.near.get().and_then(Weak::upgrade) else { return };
        let capabilities = bridge.capabilities(Revision::LATEST);
        let changes = [
            (capabilities.tools.is_some(), Change::Tools),
            (capabilities.prompts.is_some(), Change::Prompts),
            (capabilities.resources.is_some(), Change::Resources),
        ];
        for (_, change) in changes.into_iter().filter(|(has_list, _)| *has_list) {
            if is_shared {
                core.announce_and_share(&change);
            } else {
                core.announce(&change);
            }
        }
    }
}

/// Subscribes to changes of the member's lists in the background, because some servers do not answer.
fn watch_lists(bridge: &Arc<BridgeCore>) {
    let bridge = bridge.clone();
    tokio::spawn(async move { bridge.watch_lists().await });
}

/// Returns the capabilities that a member may turn out to have.
fn presumed_capabilities() -> ServerCapabilities {
    ServerCapabilities {
        tools: Some(ListCapability::default()),
        prompts: Some(ListCapability::default()),
        resources: Some(ResourcesCapability::default()),
        completions: Some(JsonObject::default()),
        logging: Some(JsonObject::default()),
        ..ServerCapabilities::default()
    }
}

/// The catalog fetches the lists of a member with the same connection that serves clients without elicitation,
/// sampling and roots.
#[derive(Debug)]
pub(super) struct MemberListSource(pub(super) Arc<MemberConnection>);

impl ListSource for MemberListSource {
    fn connection(&self) -> ConnectionFuture {
        let member = self.0.clone();
        Box::pin(async move {
            let mut state = member.state.subscribe();
            let settled = state.wait_for(|state| !matches!(state, ConnectionState::Connecting { .. })).await;
            let is_connected = settled.is_ok_and(|state| matches!(*state, ConnectionState::Connected));
            let bridge = member.bridge.get().filter(|_| is_connected).ok_or(McpClientError::Closed)?;
            let (client, is_watched) = bridge.client_for_lists().await?;
            let capabilities = bridge.capabilities(Revision::LATEST);
            Ok(ListConnection { client, capabilities, is_watched })
        })
    }
}

impl fmt::Debug for MemberConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        f.debug_struct("MemberConnection")
            .field("name", &self.name)
            .field("state", &*state)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("name", &self.name).finish_non_exhaustive()
    }
}

/// First pause between two attempts to connect. The pause doubles after each attempt, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Maximum time for one attempt to connect again, and for one check of the connection.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);

/// Time after which the log contains a line about the first attempt to connect.
const SLOW_AFTER: Duration = Duration::from_secs(5);

/// Maximum time for one attempt to connect until the first attempt has succeeded.
const FIRST_ATTEMPT_MAX: Duration = Duration::from_mins(2);

/// Interval between two checks of the connection. Together with the time for a new connection, it stays below the
/// 5 s within which a restarted member must be back.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);
