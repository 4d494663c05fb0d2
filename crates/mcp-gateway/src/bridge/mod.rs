//! Bridges: MCP servers that forward all requests to another MCP server. A bridge translates between the
//! legacy era and the modern era if necessary.
//!
//! For clients, a bridge is a normal [`McpServer`] with all transports. The bridge connects to the other
//! server as an [`McpClient`]. A bridge forwards most bytes of a message unchanged. The bridge replaces only
//! ids, progress tokens, signed values, and members that differ between the eras. A *question* is a request
//! that the server sends to a client: for elicitation, for sampling, or for the client's roots.

mod options;
mod bridge_core;
mod member_link;
mod member_sessions;

// connections to the server
mod era_server;
mod upstream;
mod upstreams;
mod session_state;
mod server_pool;
mod caller_servers;

// tokens for the server
mod caller_key;
mod credentials;

// forwarding of requests
mod session_requester;
mod outbox;
mod legacy;
mod modern;
mod ongoing;
mod suspended;
mod answer;
mod caller_bound;
mod caller_seal;
mod relayed;
mod messages;
mod logs;
mod tasks;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::params::{Params, meta_keys};
use thruway_mcp::schema::{DiscoverResult, Implementation, ServerCapabilities};
use thruway_message::FieldLines;
use thruway_net::InProcessServer;
use tokio::io::DuplexStream;

use thruway_mcp_client::{McpClient, McpClientBuilder, McpClientError};
use thruway_mcp_server::backend::Reply;
use thruway_mcp_server::backend::Shares;
use thruway_mcp_server::backend::{
    Backend, LegacyRequest, Listening, ModernRequest, NewSession, WantedNotifications,
};
use thruway_mcp_server::{McpServer, McpServerOptions, backend::ServerCore};

pub(crate) use answer::{is_unreachable, member_error, no_method, retry_after};
pub(crate) use bridge_core::BridgeCore;
pub(crate) use caller_seal::CallerSeal;
pub(crate) use credentials::MemberCredentials;
pub(crate) use legacy::{handle_request as handle_legacy_request, note_level};
pub(crate) use member_link::{MemberLink, StartedTask, TaskPoll};
pub(crate) use member_sessions::MemberSessions;
pub(crate) use modern::{Subscriber, handle_request as handle_modern_request, param_headers};
pub use options::BridgeOptions;
pub(crate) use relayed::answer_to_failure;
pub(crate) use suspended::CallsInFlight;
pub(crate) use tasks::{ask_about_own_task, list_tasks, own_task_id, replaced};
pub(crate) use upstreams::{Connect, Connector, Near};

/// An MCP server that forwards all requests to another MCP server. Clients use a bridge like any
/// [`McpServer`]. Clones of a `Bridge` share all connections and all state.
#[derive(Clone, Debug)]
pub struct Bridge {
    server: McpServer,
    core: Arc<BridgeCore>,
}

/// Handles the requests that the MCP server of a bridge receives.
#[derive(Debug)]
struct BridgeBackend(Arc<BridgeCore>);

impl Bridge {
    /// Connects to an MCP server. The bridge calls `connect` for each connection to the server. At the start,
    /// the bridge connects to learn the server's capabilities in each era. Later, the bridge connects again
    /// if the server has exited, or if a client needs a dedicated server process.
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
    /// The bridge translates sessions, subscriptions, progress reports and log messages between the two eras.
    /// It also translates questions: the server's requests for elicitation, for sampling, or for the client's
    /// roots.
    ///
    /// A question from a child process does not name the client that the question is for. If the process
    /// handles requests of several clients at that time, the bridge rejects the question. Therefore, each
    /// client that supports such questions gets a dedicated server process. For a legacy client, the process
    /// is reserved for the whole session. For a modern client, it is reserved for one call.
    ///
    /// # Errors
    /// The server is unreachable, or does not report its capabilities.
    pub async fn connect(
        options: BridgeOptions,
        connect: impl Fn(McpClientBuilder) -> Result<McpClient, McpClientError> + Send + Sync + 'static,
    ) -> Result<Self, McpClientError> {
        let near = Near::default();
        let connector = Connector {
            options: options.clone(),
            connect: Arc::new(connect),
            near: near.clone(),
            capacity: Shares::new(options.servers_max),
            dropped: Arc::default(),
            is_ending: Arc::default(),
            slot: 0,
            member: None,
            credentials: None,
        };
        let (core, discovered) = BridgeCore::connect(connector).await?;
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

    /// Disconnects from the server. The bridge connects again when the next request arrives.
    pub async fn close(&self) {
        self.core.close().await;
    }

    /// Returns the number of messages that the bridge has dropped. The bridge drops two kinds of messages.
    /// First, progress reports, log messages and task states that a client does not read. Second, log
    /// messages with an unknown recipient. The bridge logs the reasons.
    pub fn dropped_messages(&self) -> u64 {
        self.core.dropped.count()
    }

    /// Waits until all calls have ended, or until the timeout `within`. Then disconnects from the server
    /// permanently, and rejects further requests.
    pub async fn drain(&self, within: Duration) {
        self.core.drain(within).await;
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
        let sessions = MemberSessions::new(1, 0, self.0.dropped.clone());
        let session = self.0.session_in(&sessions, revision);
        let capabilities = session.map(|session| session.era_server.capabilities(revision));
        NewSession { capabilities: capabilities.unwrap_or_default(), state: Some(Box::new(sessions)) }
    }

    /// Rejects requests with `Mcp-Param-*` headers, because the bridge does not know the tools and cannot
    /// check these headers. Legacy clients do not send such headers.
    fn check_legacy_param_headers(&self, headers: FieldLines<'_>, _: &Params<'_>) -> Result<(), Error> {
        thruway_mcp::modern::refuse_param_headers(headers)
    }

    fn handle_legacy(&self, request: &LegacyRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        legacy::handle_request(&self.0, request, output)
    }

    fn handle_modern(&self, request: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        Some(modern::handle_request(&self.0, request, param_headers(request), output))
    }

    fn listen(&self, request: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error> {
        modern::listen(&self.0, request, wanted)
    }

    fn needs_params_text(&self) -> bool {
        true
    }
}

/// Returns the name and version that the server reported. If the server reported none, returns the name
/// `bridge` with the version of this crate.
fn info_of(discovered: &DiscoverResult) -> Implementation {
    let meta = discovered.meta.as_ref();
    let info = meta.and_then(|meta| meta.get(meta_keys::SERVER_INFO)).cloned();
    let info = info.and_then(|info| serde_json::from_value(info).ok());
    info.unwrap_or_else(|| Implementation::new("bridge", env!("CARGO_PKG_VERSION")))
}
