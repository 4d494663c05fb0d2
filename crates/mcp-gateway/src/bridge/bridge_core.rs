//! The state of a bridge: the connections to the server in each era, and the calls that the bridge is
//! forwarding.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{DiscoverResult, ServerCapabilities};
use thruway_mcp::{Era, Revision};
use thruway_mcp_client::forwarding::Answer;
use thruway_mcp_client::{EraChoice, McpClient, McpClientError};
use thruway_mcp_server::backend::{Caller, Change, DroppedMessages, Session};
use tokio::time::timeout;

use super::answer;
use super::credentials::CallerCredential;
use super::era_server::{EraServer, LegacyEraServer};
use super::member_link::{MemberLink, public_change, task_prefix};
use super::suspended::{CallsInFlight, Suspended};
use super::upstreams::Connector;

/// The state of a bridge.
pub(crate) struct BridgeCore {
    /// The connections for modern clients. These connections use the modern era if the server supports that
    /// era, otherwise the legacy era.
    pub(super) era_server: Arc<EraServer>,
    /// The connections for legacy clients. Used only if the server supports both eras.
    pub(super) legacy_era_server: LegacyEraServer,
    pub(super) connector: Connector,
    pub(super) shares_subscriptions: bool,
    pub(super) suspended: Arc<Suspended>,
    pub(super) calls: CallsInFlight,
    pub(super) dropped: Arc<DroppedMessages>,
    /// The index of this server among the members of the federation. 0 for a bridge.
    pub(super) slot: usize,
    /// The link to the federation that this server belongs to. `None` for a bridge.
    pub(super) member: Option<Arc<dyn MemberLink>>,
}

impl BridgeCore {
    /// Connects to the server in each era that the server supports. Also returns the server's description.
    ///
    /// # Errors
    /// The server is unreachable, or does not report its capabilities.
    pub(crate) async fn connect(connector: Connector) -> Result<(Arc<Self>, DiscoverResult), McpClientError> {
        let options = &connector.options;
        let (era_server, discovered) = EraServer::connect(&connector, options.client.era).await?;
        let may_use_legacy_era = options.client.era == EraChoice::Auto && era_server.era() == Era::Modern;
        let core = Arc::new(Self {
            era_server: Arc::new(era_server),
            legacy_era_server: LegacyEraServer::new(may_use_legacy_era),
            shares_subscriptions: options.shares_subscriptions,
            suspended: Suspended::new(
                options.questions_max,
                options.question_wait,
                options.server.replica_ids.clone(),
            ),
            calls: CallsInFlight::default(),
            dropped: connector.dropped.clone(),
            slot: connector.slot,
            member: connector.member.clone(),
            connector,
        });
        core.probe_legacy_era().await;
        Ok((core, discovered))
    }

    /// Returns the name of this server in the federation. `None` for a bridge.
    pub(super) fn member_name(&self) -> Option<&str> {
        self.member.as_deref().map(MemberLink::name)
    }

    /// Converts an error of the MCP client to a JSON-RPC error. In a federation, the error names this server.
    pub(super) fn error_of(&self, error: McpClientError) -> Error {
        answer::error_of_member(self.member_name(), error)
    }

    /// Tells the federation, if any, that a request to this server has failed.
    pub(super) fn note_outcome<T>(&self, outcome: &Result<T, McpClientError>) {
        if let (Some(member), Err(error)) = (&self.member, outcome) {
            member.note_failure(error);
        }
    }

    /// Returns the change of a resource as clients get it. `own` is the URI that the server uses.
    pub(super) fn change_of(&self, own: &str) -> Change {
        public_change(self.member.as_deref(), Change::Resource(own.into()))
    }

    /// Replaces the server's own URIs in a result or error by the URIs that clients use.
    pub(super) fn with_public_uris(
        &self,
        method: &str,
        outcome: Result<Answer, McpClientError>,
    ) -> Result<Answer, McpClientError> {
        let Some(uris) = self.member.as_deref().and_then(MemberLink::uris) else { return outcome };
        match outcome {
            Ok(answer) => Ok(uris.rewrite_result(method, &answer).unwrap_or(answer)),
            Err(McpClientError::Server(mut error)) => {
                let uri = error.data.as_mut().and_then(|data| data.get_mut("uri"));
                if let Some(Value::String(uri)) = uri {
                    *uri = uris.public(uri);
                }
                Err(McpClientError::Server(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the prefix of the task ids that clients get for tasks of this server. In a federation, the
    /// prefix names the member. Empty for a bridge.
    pub(super) fn task_prefix(&self) -> Box<str> {
        task_prefix(self.member.as_deref())
    }

    /// Returns the era that the bridge speaks with the server when it forwards a request of a modern client.
    pub(super) fn era(&self) -> Era {
        self.era_server.era()
    }

    /// Returns the connections for clients of the era `near`. If possible, legacy clients use legacy
    /// connections, because some servers ask questions only in the legacy era.
    pub(super) fn era_server(&self, near: Era) -> &Arc<EraServer> {
        match near {
            Era::Legacy => self.legacy_era_server.get().unwrap_or(&self.era_server),
            Era::Modern => &self.era_server,
        }
    }

    /// Returns the connections for a new legacy session. If the bridge could not yet detect whether the
    /// server supports the legacy era, it tries again in the background. The result of this attempt applies
    /// only to later sessions.
    pub(super) fn server_of_session(self: &Arc<Self>) -> &Arc<EraServer> {
        if self.legacy_era_server.is_undecided() {
            let bridge = self.clone();
            tokio::spawn(async move { bridge.probe_legacy_era().await });
        }
        self.era_server(Era::Legacy)
    }

    pub(super) async fn probe_legacy_era(&self) {
        let is_on_stream = self.era_server.upstreams.are_on_stream();
        self.legacy_era_server.probe(&self.connector, is_on_stream).await;
    }

    pub(super) fn era_servers(&self) -> impl Iterator<Item = &Arc<EraServer>> {
        [&self.era_server].into_iter().chain(self.legacy_era_server.get())
    }

    /// Returns the number of calls that wait until modern clients answer questions of the server.
    pub(crate) fn pending_call_count(&self) -> usize {
        self.suspended.count()
    }

    /// Returns the number of tasks that clients know.
    pub(crate) fn task_count(&self) -> usize {
        self.era_servers().map(|server| server.upstreams.tasks.count()).sum()
    }

    /// Returns the capabilities that the server offers to clients of the revision `near`.
    pub(crate) fn capabilities(&self, near: Revision) -> ServerCapabilities {
        self.era_server(near.era()).capabilities(near)
    }

    /// Returns the protocol revision that the bridge uses when it forwards a request of a modern client.
    pub(crate) fn revision(&self) -> Revision {
        self.era_server.revision
    }

    /// Returns a text that identifies the current server process. Empty for a server over HTTP, and while there
    /// is no connection.
    pub(crate) fn process_id(&self) -> String {
        self.era_server.upstreams.process_id()
    }

    /// Returns `true` if the server is a child process or another server on a stream. Each replica of a gateway has its
    /// own server then.
    pub(crate) fn is_on_stream(&self) -> bool {
        self.era_server.upstreams.are_on_stream()
    }

    /// Checks that the server responds. Connects again if the connection is closed. The caller has its own pauses
    /// between these checks, so that a lost server does not wait for the pause between the requests of clients.
    ///
    /// # Errors
    /// The server is unreachable, or does not answer before the timeout.
    pub(crate) async fn check_server(&self) -> Result<(), McpClientError> {
        let upstream = self.era_server.upstreams.plain_after(CHECK_PAUSE).await?;
        upstream.client.permit_restart().await;
        match upstream.client.ping().await {
            // An error of the server is an answer too.
            Ok(()) | Err(McpClientError::Server(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes that the server is back after a loss, so that the requests of clients connect again without a pause.
    pub(crate) fn note_returned(&self) {
        self.era_servers().for_each(|era_server| era_server.upstreams.note_returned());
    }

    /// Returns the client of the shared server. The second value is `true` if the bridge has subscribed to
    /// changes of this server's lists.
    ///
    /// # Errors
    /// The server is unreachable.
    pub(crate) async fn client_for_lists(&self) -> Result<(McpClient, bool), McpClientError> {
        let upstream = self.era_server.upstreams.plain().await?;
        let is_watched = matches!(timeout(WATCH_WAIT, upstream.watch_lists()).await, Ok(Ok(())));
        Ok((upstream.client.clone(), is_watched))
    }

    /// Makes the server send the log messages that `session` wants, in addition to the log messages that other
    /// sessions want. Does nothing for a modern server, because modern requests contain the log level.
    ///
    /// # Errors
    /// The server is unreachable, or rejects the log level.
    pub(crate) async fn log_for(self: &Arc<Self>, session: &Arc<Session>) -> Result<(), McpClientError> {
        let own = self.session_of(session).filter(|own| own.era_server.era() == Era::Legacy);
        let Some(own) = own else { return Ok(()) };
        let upstreams = &own.era_server.upstreams;
        let credential = own.state.credential();
        if credential.is_none() && self.connector.credentials.as_ref().is_some_and(|all| all.is_per_caller())
        {
            // The first request of the session sets the level.
            return Ok(());
        }
        let upstream = upstreams.of_session(session, &own.state, credential.as_ref()).await?;
        upstreams.log_for(&upstream, session, &own.state).await
    }

    /// Returns the credential of `caller` at the server, if each caller has its own.
    ///
    /// # Errors
    /// The caller needs a verified token.
    pub(super) fn credential_of(
        &self,
        caller: &Caller,
    ) -> Result<Option<Arc<CallerCredential>>, McpClientError> {
        self.connector.credentials.as_ref().map_or(Ok(None), |credentials| credentials.of_caller(caller))
    }

    /// Disconnects from the server. The bridge connects again when the next request arrives.
    pub(super) async fn close(&self) {
        for era_server in self.era_servers() {
            era_server.upstreams.close().await;
        }
    }

    /// Waits until all calls have ended, or until the timeout `within`. Then disconnects from the server
    /// permanently, and rejects further requests.
    pub(crate) async fn drain(&self, within: Duration) {
        // After the timeout, the bridge cancels the remaining calls.
        self.calls.none_within(within, self.member_name().unwrap_or("bridge")).await;
        let of_modern_clients = self.era_server.upstreams.end();
        let of_legacy_clients = async {
            if let Some(era_server) = self.legacy_era_server.get() {
                era_server.upstreams.end().await;
            }
        };
        tokio::join!(of_modern_clients, of_legacy_clients);
    }

    /// Waits until no call is in progress.
    pub(crate) async fn calls_ended(&self) {
        self.calls.none().await;
    }

    /// Subscribes to changes of the server's lists of tools, prompts and resources. The bridge forwards these
    /// changes to modern clients.
    pub(crate) async fn watch_lists(&self) {
        self.era_server.watch_lists().await;
    }
}

impl fmt::Debug for BridgeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeCore").field("era_server", &self.era_server).finish_non_exhaustive()
    }
}

/// Maximum time that a request for a list waits for the subscription to changes of this list.
const WATCH_WAIT: Duration = Duration::from_secs(1);

/// Minimum time between two attempts to connect for a check of the server.
const CHECK_PAUSE: Duration = Duration::from_millis(50);
