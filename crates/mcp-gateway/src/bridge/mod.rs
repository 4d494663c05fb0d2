//! Bridges: servers whose requests are answered by another one, elsewhere and perhaps in the other era.
//!
//! The near side is an [`McpServer`], with all its bindings; the far side is an [`McpClient`]. What is
//! forwarded stays the octets that it is, but for the id, the progress token, and what the eras say
//! differently.

mod options;
mod bridge_core;

// where requests go
mod far_side;
mod upstream;
mod upstreams;
mod leases;

// from a request to its answer
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

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::{Params, meta_keys};
use thruway_mcp::schema::{DiscoverResult, Implementation, ServerCapabilities};
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLines;
use thruway_net::InProcessServer;
use tokio::io::DuplexStream;
use tokio::time::timeout;

use bridge_core::BridgeCore;
use far_side::{BridgeSession, FarSide, LegacyFarSide};
use suspended::{CallsInFlight, Suspended};
use thruway_mcp_client::{EraChoice, McpClient, McpClientBuilder, McpClientError};
use thruway_mcp_server::backend::DroppedMessages;
use thruway_mcp_server::backend::Reply;
use thruway_mcp_server::backend::Shares;
use thruway_mcp_server::backend::{
    Backend, LegacyRequest, Listening, ModernRequest, NewSession, WantedNotifications,
};
use thruway_mcp_server::{McpServer, McpServerOptions, backend::ServerCore};

use upstreams::{Connector, Near, SessionState};

pub use options::BridgeOptions;

/// A server that passes all requests to another server. Clones are the same bridge. It serves its clients as
/// any [`McpServer`] does.
#[derive(Clone, Debug)]
pub struct Bridge {
    server: McpServer,
    core: Arc<BridgeCore>,
}

/// The backend of the server of a bridge.
#[derive(Debug)]
struct BridgeBackend(Arc<BridgeCore>);

impl Bridge {
    /// Connects to a server. `connect` makes a client of it each time one is needed: here, to learn what the
    /// server offers in each era, and again when the server has gone or is needed for one client alone.
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
    /// Clients and servers of different eras understand each other: sessions, subscriptions, progress, log
    /// messages and questions are translated. A server on one stream, such as a child process, that asks
    /// while it handles requests of several clients gets an error, because it does not say which client it
    /// asks. Clients that can be asked have a server for themselves: in the legacy era for a session, in the
    /// modern era for a call.
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

    /// Returns the number of messages that the bridge has dropped: messages that a client did not read, such
    /// as progress, log messages and the status of tasks, and log messages of which it is unknown who may see
    /// them. The log has the reasons.
    pub fn dropped_messages(&self) -> u64 {
        self.core.dropped.count()
    }

    /// Waits until no call is being forwarded, but no longer than `within`, and disconnects from the servers
    /// for good: further requests are refused.
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
        let state = BridgeSession { far_side: far_side.clone(), state: Arc::new(SessionState::new(tasks)) };
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

/// What the server says that it is.
fn info_of(discovered: &DiscoverResult) -> Implementation {
    let meta = discovered.meta.as_ref();
    let info = meta.and_then(|meta| meta.get(meta_keys::SERVER_INFO)).cloned();
    let info = info.and_then(|info| serde_json::from_value(info).ok());
    info.unwrap_or_else(|| Implementation::new("bridge", env!("CARGO_PKG_VERSION")))
}
