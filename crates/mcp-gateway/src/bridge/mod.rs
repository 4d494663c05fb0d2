//! Bridges: MCP servers that forward all requests to another MCP server, which may support another era.
//!
//! For its clients, a bridge is an [`McpServer`] with all its transports. For the server, a bridge is an
//! [`McpClient`]. A bridge forwards the bytes of a message unchanged. Exceptions are the id, the progress
//! token, and the differences between the eras.

mod options;
mod bridge_core;

// connections to the server
mod era_server;
mod upstream;
mod upstreams;
mod leases;

// handling of requests
mod session_requester;
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
use era_server::{BridgeSession, EraServer, LegacyEraServer};
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

/// An MCP server that forwards all requests to another MCP server. Clients use a bridge like any
/// [`McpServer`]. Clones share one bridge.
#[derive(Clone, Debug)]
pub struct Bridge {
    server: McpServer,
    core: Arc<BridgeCore>,
}

/// The backend of the MCP server of a bridge.
#[derive(Debug)]
struct BridgeBackend(Arc<BridgeCore>);

impl Bridge {
    /// Connects to an MCP server. The bridge calls `connect` each time it needs a client. At first, the
    /// bridge asks the server for its capabilities in each era. Later, the bridge connects again after
    /// the server has exited, or to start a server process that serves only one client.
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
    /// The bridge translates between the eras: sessions, subscriptions, progress, log messages and
    /// questions.
    ///
    /// A server on a stream, such as a child process, does not name the client that its question is for.
    /// If such a server asks a question while it handles requests of several clients, the bridge rejects
    /// the question. Therefore, each client that can answer questions gets a server process that no other
    /// client uses: a legacy client for a session, a modern client for a call.
    ///
    /// # Errors
    /// The server is unreachable, or does not report its capabilities.
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
        let (era_server, discovered) = EraServer::connect(&connector, options.client.era).await?;
        let may_speak_both = options.client.era == EraChoice::Auto && era_server.era() == Era::Modern;
        let core = Arc::new(BridgeCore {
            era_server: Arc::new(era_server),
            legacy_era_server: LegacyEraServer::new(may_speak_both),
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

    /// Returns the MCP server that clients connect to.
    pub const fn server(&self) -> &McpServer {
        &self.server
    }

    /// Disconnects from the server. For later requests, the bridge connects again.
    pub async fn close(&self) {
        for era_server in self.core.era_servers() {
            era_server.upstreams.close().await;
        }
    }

    /// Returns the number of messages that the bridge has dropped. The bridge drops progress reports, log
    /// messages and task states that a client does not read, and log messages with an unknown recipient.
    /// The log contains the reasons.
    pub fn dropped_messages(&self) -> u64 {
        self.core.dropped.count()
    }

    /// Waits until the bridge has forwarded all calls, but at most for `within`. Then disconnects from
    /// the server permanently and rejects further requests.
    pub async fn drain(&self, within: Duration) {
        // After the timeout, the bridge cancels the remaining calls.
        let _ = timeout(within, self.core.calls.none()).await;
        for era_server in self.core.era_servers() {
            era_server.upstreams.end().await;
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
        let era_server = self.0.server_of_session().clone();
        let capabilities = era_server.capabilities(revision);
        let tasks = era_server.tasks_of_session(revision);
        let state =
            BridgeSession { era_server: era_server.clone(), state: Arc::new(SessionState::new(tasks)) };
        tokio::spawn(async move { era_server.watch_lists().await });
        NewSession { capabilities, state: Some(Box::new(state)) }
    }

    /// Rejects requests with `Mcp-Param-*` headers. The bridge cannot check these headers, because it
    /// does not know the tools. Legacy clients do not send such headers.
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

/// Returns the name and version that the server reported, or the name and version of the bridge.
fn info_of(discovered: &DiscoverResult) -> Implementation {
    let meta = discovered.meta.as_ref();
    let info = meta.and_then(|meta| meta.get(meta_keys::SERVER_INFO)).cloned();
    let info = info.and_then(|info| serde_json::from_value(info).ok());
    info.unwrap_or_else(|| Implementation::new("bridge", env!("CARGO_PKG_VERSION")))
}
