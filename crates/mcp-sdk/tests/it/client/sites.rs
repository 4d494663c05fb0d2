//! All transports between a client and a Thruway server.

use std::sync::Arc;
use std::time::Duration;

use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, InputRequest, InputResponse};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpServer, Revision};
use thruway_server::{Config, Router, RunningServer, Server, Timeouts};

use crate::fixtures::answer;

/// A server on a port that the system chooses.
pub(crate) struct Site {
    server: Option<RunningServer>,
    pub(crate) url: String,
}

impl Site {
    pub(crate) fn new(server: &McpServer) -> Self {
        Self::of(Router::new().any("/mcp", server.endpoint()))
    }

    pub(crate) fn of(router: Router) -> Self {
        // Most tests of canceled calls wait for this timeout.
        let timeouts = Timeouts { half_closed: Duration::from_millis(100), ..Timeouts::default() };
        let config = Config { timeouts, ..Config::default() };
        let server =
            Server::new(router).config(config).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        let url = format!("http://{}/mcp", server.addresses()[0]);
        Self { server: Some(server), url }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

/// The era choices of clients.
pub(crate) const CHOICES: [EraChoice; 6] = [
    EraChoice::Auto,
    EraChoice::Modern,
    EraChoice::Legacy,
    EraChoice::Revision(Revision::R20260728),
    EraChoice::Revision(Revision::R20250618),
    EraChoice::Revision(Revision::R20241105),
];

/// Returns clients of `server` for all transports. `site` serves it over HTTP.
pub(crate) fn clients(
    server: &McpServer,
    site: &Site,
    prepare: impl Fn(McpClientBuilder) -> McpClientBuilder,
) -> Vec<(String, McpClient)> {
    let mut clients = Vec::new();
    for choice in CHOICES {
        let builder = || prepare(McpClient::builder().era(choice));
        clients.push((format!("{choice:?} in memory"), builder().server(server)));
        clients.push((format!("{choice:?} over HTTP"), builder().http(&site.url)));
    }
    clients
}

/// Makes a client answer all questions as [`answer`] does.
pub(crate) fn answering(builder: McpClientBuilder) -> McpClientBuilder {
    let capabilities: ClientCapabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    builder.answers(capabilities, |question| async move { Ok::<_, Error>(response(&question)) })
}

pub(crate) fn response(question: &InputRequest) -> InputResponse {
    let method = match question {
        InputRequest::Elicit(_) => "elicitation/create",
        InputRequest::CreateMessage(_) => "sampling/createMessage",
        InputRequest::ListRoots(_) => "roots/list",
    };
    serde_json::from_value(answer(method, &serde_json::Value::Null)).unwrap()
}

/// Records the values that a callback receives.
pub(crate) struct Recorder<T>(Arc<std::sync::Mutex<Vec<T>>>);

impl<T: Send + 'static> Recorder<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Returns a callback that records its argument.
    pub(crate) fn callback(&self) -> impl Fn(T) + Send + Sync + 'static {
        let recorded = self.0.clone();
        move |one| recorded.lock().unwrap().push(one)
    }

    /// Removes and returns the recorded values.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}
