//! Bridges: servers whose requests are answered by another one, elsewhere and perhaps in the other era.
//!
//! The near side is an [`McpServer`], with all its bindings; the far side is an [`McpClient`]. What is forwarded stays the octets
//! that it is, but for the id, the progress token, and what the eras say differently.

// where requests go
mod far_side;
mod upstream;
mod upstreams;
mod leases;

// from a request to its answer
mod session;
mod session_party;
mod outbox;
mod legacy;
mod modern;
mod ongoing;
mod suspended;
mod answer;
mod caller_bound;
mod messages;
mod logs;
mod tasks;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::{Params, meta_keys};
use thruway_mcp::schema::{DiscoverResult, Implementation, ServerCapabilities};
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLines;
use thruway_net::InProcessServer;
use tokio::io::DuplexStream;
use tokio::time::timeout;

use far_side::{Connector, LegacyFarSide};
use suspended::CallsInFlight;
use suspended::Suspended;
use thruway_mcp_client::{EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions};
use thruway_mcp_server::backend::DroppedMessages;
use thruway_mcp_server::backend::Reply;
use thruway_mcp_server::backend::Shares;
use thruway_mcp_server::backend::{
    Backend, LegacyRequest, Listening, ModernRequest, NewSession, WantedNotifications,
};
use thruway_mcp_server::{McpServer, McpServerOptions, backend::ServerCore};

use far_side::FarSide;
use session::BridgeSession;
use upstream::Upstream;

/// Options of a [bridge](Bridge::connect), with defaults that suit most.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// Options of the connections to the server. Default: a call may take 5 minutes from its beginning or its
    /// last progress on, and an hour in all. With [`EraChoice::Auto`], clients of each era meet the server in
    /// their own era if the server speaks it: some servers can ask their client in the legacy era only.
    /// Choose an era to avoid the second connection.
    pub client: McpClientOptions,
    /// How the near side serves. What the server says of itself is that of the far side. Default: sessions of the legacy era
    /// end after 10 minutes without use. The `state_key` seals tasks and `requestState` of 2026-07-28 for the
    /// caller that received them: bridges that stand in for each other need the same.
    pub server: McpServerOptions,
    /// Whether each session of the legacy era has a server of its own, such as a child process. Default: only those whose
    /// clients can be asked; the others share one.
    pub has_server_per_session: bool,
    /// Whether subscriptions of the modern era stand at the server that all share, also those of clients that can be asked. Default:
    /// these stand at the server that handles the client's calls, which knows what the calls have changed, and which the
    /// subscription keeps for that client: one for each that is authorized, and for all others one for each set of capabilities.
    pub shares_subscriptions: bool,
    /// Maximum number of servers that are for one session or one call alone. Default: 32; beyond, sessions
    /// are refused, and calls and subscriptions wait for a while; if all are kept by sessions and
    /// subscriptions, they are refused too. Over HTTP, the modern era is refused with 503.
    ///
    /// A caller may have as many of them as it leaves for others: half if it is the only one. The same is
    /// true for [`questions_max`](Self::questions_max), [`tasks_max`](Self::tasks_max), and the resources
    /// that clients watch (10,000 for each server). Callers are the same as for sessions: a token, an address
    /// or a network (see [`sessions_per_address_max`](McpServerOptions::sessions_per_address_max)). Programs
    /// on the same machine may have all. Increase the limits if many users share one token or one address.
    pub servers_max: usize,
    /// How long a call of the legacy era waits for the answers of a client of the modern era. Default: 5 minutes.
    pub question_wait: Duration,
    /// How many calls may wait for such answers. Default: 1000; beyond, they fail.
    pub questions_max: usize,
    /// How many tasks of 2025-11-25 are remembered. Default: 10000; beyond, calls that would become tasks are refused, unless
    /// one of the same client has ended, which then is forgotten.
    pub tasks_max: usize,
    /// Of these, the tasks of one client. Default: 100.
    pub tasks_per_client_max: usize,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        let client = McpClientOptions { timeout: Duration::from_mins(5), ..McpClientOptions::default() };
        let server =
            McpServerOptions { session_idle: Duration::from_mins(10), ..McpServerOptions::default() };
        Self {
            client,
            server,
            has_server_per_session: false,
            shares_subscriptions: false,
            servers_max: 32,
            question_wait: Duration::from_mins(5),
            questions_max: 1000,
            tasks_max: 10_000,
            tasks_per_client_max: 100,
        }
    }
}

/// The far side of a server.
struct BridgeCore {
    /// The server for clients of the modern era, in the modern era if it speaks that.
    far_side: Arc<FarSide>,
    /// The server for clients of the legacy era, if it speaks both eras.
    legacy_far_side: LegacyFarSide,
    connector: Connector,
    shares_subscriptions: bool,
    suspended: Arc<Suspended>,
    calls: CallsInFlight,
    dropped: Arc<DroppedMessages>,
}

/// The near side, for the far side to tell what changes.
type Near = Arc<OnceLock<Weak<ServerCore>>>;

/// A server that passes all requests to another server. Clones are the same bridge. It serves its clients as any
/// [`McpServer`] does.
#[derive(Clone, Debug)]
pub struct Bridge {
    server: McpServer,
    core: Arc<BridgeCore>,
}

/// The backend of the server of a bridge.
#[derive(Debug)]
struct BridgeBackend(Arc<BridgeCore>);

impl Bridge {
    /// Connects to a server. `connect` makes a client of it each time one is needed: here, to learn what the server offers in
    /// each era, and again when the server has gone or is needed for one client alone.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use thruway_mcp_client::McpClientBuilder;
    /// use thruway_mcp_gateway::{Bridge, BridgeOptions};
    ///
    /// let connect = |builder: McpClientBuilder| Ok(builder.http("https://mcp.example/mcp"));
    /// let bridge = Bridge::connect(BridgeOptions::default(), connect).await?;
    /// bridge.serve_standard_streams().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Clients and servers of different eras understand each other: sessions, subscriptions, progress, log messages and
    /// questions are translated. A server on one stream, such as a child process, that asks while it handles requests of several
    /// clients gets an error, because it does not say which client it asks. Clients that can be asked have a server for
    /// themselves: in the legacy era for a session, in the modern era for a call.
    ///
    /// # Errors
    /// The server cannot be reached, or does not describe itself.
    pub async fn connect(
        options: BridgeOptions,
        connect: impl Fn(McpClientBuilder) -> Result<McpClient, McpClientError> + Send + Sync + 'static,
    ) -> Result<Self, McpClientError> {
        let near = Near::default();
        let dropped = Arc::<DroppedMessages>::default();
        let connector = Connector {
            options: options.clone(),
            connect: Arc::new(connect),
            near: near.clone(),
            places: Shares::new(options.servers_max),
            dropped: dropped.clone(),
            is_ending: Arc::default(),
        };
        let (far_side, discovered) = FarSide::connect(&connector, options.client.era).await?;
        let may_speak_both = options.client.era == EraChoice::Auto && far_side.era() == Era::Modern;
        let core = Arc::new(BridgeCore {
            far_side: Arc::new(far_side),
            legacy_far_side: LegacyFarSide::new(may_speak_both),
            connector,
            shares_subscriptions: options.shares_subscriptions,
            suspended: Suspended::new(options.questions_max, options.question_wait),
            calls: CallsInFlight::default(),
            dropped,
        });
        core.probe_legacy_era().await;
        let server_options =
            McpServerOptions { instructions: discovered.instructions.clone(), ..options.server };
        let backend = Arc::new(BridgeBackend(core.clone()));
        let server = McpServer::with_backend(info_of(&discovered), server_options, backend);
        near.get_or_init(|| Arc::downgrade(server.core()));
        Ok(Self { server, core })
    }

    /// Returns the server that clients talk to.
    pub const fn server(&self) -> &McpServer {
        &self.server
    }

    /// Disconnects from the servers. The bridge connects again if there are further requests.
    pub async fn close(&self) {
        for far_side in self.core.far_sides() {
            far_side.upstreams.close().await;
        }
    }

    /// Returns the number of messages that the bridge has dropped: messages that a client did not read, such as progress, log
    /// messages and the status of tasks, and log messages of which it is unknown who may see them. The log has the reasons.
    pub fn dropped_messages(&self) -> u64 {
        self.core.dropped.count()
    }

    /// Waits until no call is being forwarded, but no longer than `within`, and disconnects from the servers for good: further
    /// requests are refused.
    pub async fn drain(&self, within: Duration) {
        // Calls that are not answered by then are cut off.
        let _ = timeout(within, self.core.calls.none()).await;
        for far_side in self.core.far_sides() {
            far_side.upstreams.end().await;
        }
    }
}

impl Deref for Bridge {
    type Target = McpServer;

    fn deref(&self) -> &McpServer {
        &self.server
    }
}

impl InProcessServer for Bridge {
    fn serve_pipe(&self, pipe: DuplexStream) {
        self.server.serve_pipe(pipe);
    }
}

impl Backend for BridgeBackend {
    fn capabilities(&self, _: &ServerCore, revision: Revision) -> ServerCapabilities {
        self.0.capabilities(revision)
    }

    fn begin_session(&self, _: &ServerCore, revision: Revision) -> NewSession {
        let far_side = self.0.far_side_of_session().clone();
        let capabilities = far_side.capabilities(revision);
        let tasks = far_side.tasks_of_session(revision);
        let state = BridgeSession::new(far_side.clone(), tasks);
        tokio::spawn(async move { far_side.watch_lists().await });
        NewSession { capabilities, state: Some(Box::new(state)) }
    }

    /// Refuses such headers: the tools are those of another server, and clients of this era do not send them.
    fn check_legacy_param_headers(&self, headers: FieldLines<'_>, _: &Params<'_>) -> Result<(), Error> {
        thruway_mcp::modern::refuse_param_headers(headers)
    }

    fn handle_legacy(&self, request: &LegacyRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        legacy::handle_request(&self.0, request, output)
    }

    fn handle_modern(&self, request: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        Some(modern::handle_request(&self.0, request, output))
    }

    fn listen(&self, request: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error> {
        modern::listen(&self.0, request, wanted)
    }

    fn needs_params_text(&self) -> bool {
        true
    }
}

impl BridgeCore {
    /// Returns the era that the server speaks with clients of the modern era.
    fn era(&self) -> Era {
        self.far_side.era()
    }

    /// Returns the server for clients of `near`. Clients of the legacy era meet it in the legacy era if it
    /// speaks that: some servers ask their client only there.
    pub(crate) fn far_side(&self, near: Era) -> &Arc<FarSide> {
        match near {
            Era::Legacy => self.legacy_far_side.get().unwrap_or(&self.far_side),
            Era::Modern => &self.far_side,
        }
    }

    /// Returns the server for a session of the legacy era that begins. If the server could not be asked so
    /// far whether it speaks that era, it is asked for later sessions.
    pub(crate) fn far_side_of_session(self: &Arc<Self>) -> &Arc<FarSide> {
        if self.legacy_far_side.is_undecided() {
            let bridge = self.clone();
            tokio::spawn(async move { bridge.probe_legacy_era().await });
        }
        self.far_side(Era::Legacy)
    }

    async fn probe_legacy_era(&self) {
        let is_on_stream = self.far_side.upstreams.are_on_stream();
        self.legacy_far_side.probe(&self.connector, is_on_stream).await;
    }

    fn far_sides(&self) -> impl Iterator<Item = &Arc<FarSide>> {
        [&self.far_side].into_iter().chain(self.legacy_far_side.get())
    }

    /// Returns the capabilities of the server for clients that speak `near`.
    pub(crate) fn capabilities(&self, near: Revision) -> ServerCapabilities {
        self.far_side(near.era()).capabilities(near)
    }

    /// Begins to hear of lists that change, for clients of the modern era.
    pub(crate) async fn watch_lists(&self) {
        self.far_side.watch_lists().await;
    }
}

/// What the server says that it is.
fn info_of(discovered: &DiscoverResult) -> Implementation {
    let meta = discovered.meta.as_ref();
    let info = meta.and_then(|meta| meta.get(meta_keys::SERVER_INFO)).cloned();
    let info = info.and_then(|info| serde_json::from_value(info).ok());
    info.unwrap_or_else(|| Implementation::new("bridge", env!("CARGO_PKG_VERSION")))
}

impl fmt::Debug for BridgeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeCore").field("far_side", &self.far_side).finish_non_exhaustive()
    }
}
