//! The version of the server that clients of a development server reach, and its state.

use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use thruway_mcp_sdk::schema::DiscoverResult;
use thruway_mcp_sdk::{Bridge, McpClient, McpClientError, McpEndpoint};
use thruway_server::Handler;

/// The bridge to a version of the server, its endpoints, and a client for the inspector.
pub(super) struct Version {
    pub(super) bridge: Bridge,
    /// A client of the bridge in this process.
    pub(super) client: McpClient,
    /// Name, capabilities and instructions of the server.
    pub(super) discovered: DiscoverResult,
    endpoint: McpEndpoint,
    sse_stream: Box<dyn Handler>,
    sse_messages: Box<dyn Handler>,
}

/// State of the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "state", content = "reason")]
pub(super) enum ServerState {
    /// The build runs. The previous version still serves, if there is one.
    Building,
    /// The new version starts.
    Starting,
    /// The server responds.
    Running,
    /// The build failed. The previous version still serves, if there is one.
    Unbuilt(String),
    /// The server does not start.
    Failed(String),
    /// The server has ended after its start.
    Ended(String),
}

/// The current version of the server and its state. All clones share them.
#[derive(Clone)]
pub(super) struct Served(Arc<RwLock<Inner>>);

struct Inner {
    state: ServerState,
    version: Option<Arc<Version>>,
    /// `true` if requests go to the version.
    is_serving: bool,
    restarts: u64,
}

impl Version {
    /// Creates the endpoints of a bridge. Must run inside of a tokio runtime.
    pub(super) async fn new(bridge: Bridge) -> Result<Self, McpClientError> {
        let client = McpClient::builder().server(&bridge);
        let discovered = client.discover().await?;
        let endpoint = bridge.endpoint();
        let sse = endpoint.sse_endpoints(MESSAGE_PATH);
        let (sse_stream, sse_messages) = (Box::new(sse.stream()), Box::new(sse.messages()));
        Ok(Self { bridge, client, discovered, endpoint, sse_stream, sse_messages })
    }

    pub(super) fn streamable_http(&self) -> &dyn Handler {
        &self.endpoint
    }

    pub(super) fn sse_stream(&self) -> &dyn Handler {
        &*self.sse_stream
    }

    pub(super) fn sse_messages(&self) -> &dyn Handler {
        &*self.sse_messages
    }
}

impl Served {
    pub(super) fn new() -> Self {
        let state = ServerState::Starting;
        Self(Arc::new(RwLock::new(Inner { state, version: None, is_serving: false, restarts: 0 })))
    }

    /// Returns the current version, even if requests do not go to it.
    pub(super) fn version(&self) -> Option<Arc<Version>> {
        self.read(|inner| inner.version.clone())
    }

    /// Returns the version that answers requests, or the state that explains the absence of one.
    pub(super) fn serving(&self) -> Result<Arc<Version>, ServerState> {
        self.read(|inner| match &inner.version {
            Some(version) if inner.is_serving => Ok(version.clone()),
            _ => Err(inner.state.clone()),
        })
    }

    /// Returns the state, and the number of restarts.
    pub(super) fn state(&self) -> (ServerState, u64) {
        self.read(|inner| (inner.state.clone(), inner.restarts))
    }

    /// Changes the state. A build does not interrupt the version.
    pub(super) fn set(&self, state: ServerState) {
        self.write(|inner| {
            inner.is_serving &=
                !matches!(state, ServerState::Starting | ServerState::Failed(_) | ServerState::Ended(_));
            inner.state = state;
        });
    }

    /// Lets `version` answer requests from now on. Returns the version that it replaces.
    pub(super) fn serve(&self, version: Arc<Version>) -> Option<Arc<Version>> {
        self.write(|inner| {
            inner.restarts += u64::from(inner.version.is_some());
            inner.state = ServerState::Running;
            inner.is_serving = true;
            inner.version.replace(version)
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Inner) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut Inner) -> T) -> T {
        write(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ServerState {
    /// Returns the reason why no server answers, for clients.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Building => "the server is being built: try again later".to_owned(),
            Self::Starting | Self::Running => "the server restarts: try again later".to_owned(),
            Self::Unbuilt(reason) => format!("the build of the server failed: {reason}"),
            Self::Failed(reason) => format!("the server does not start: {reason}"),
            Self::Ended(reason) => format!("the server has ended: {reason}"),
        }
    }
}

/// Path for the messages of clients that use HTTP with SSE.
pub(super) const MESSAGE_PATH: &str = "/message";
