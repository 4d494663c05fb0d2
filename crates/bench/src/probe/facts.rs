//! Sends requests before the load to find the protocol revision and the tools of a server.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_client::UpstreamAddr;
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, Revision, param_headers};

use super::error::ProbeError;
use super::exchange::{Channel, ConnectSettings};
use crate::requests::Endpoint;
use crate::stdio::{ChildServer, Pipes};
use crate::worker::LoadTls;

/// Properties of a server, taken from its responses.
#[derive(Clone, PartialEq, Debug)]
pub struct McpServerFacts {
    /// The protocol revision to use.
    pub revision: Revision,
    /// Tools on the first page of the server's list. The list is empty if the server rejects `tools/list`.
    pub tools: Vec<FoundTool>,
}

/// A tool of a server.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundTool {
    /// The tool's name.
    pub name: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
}

impl FoundTool {
    /// Returns the names of the required arguments.
    pub fn required(&self) -> Vec<&str> {
        let required = self.input_schema["required"].as_array();
        required.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the names and values of the header fields that must repeat some of the `arguments`.
    pub fn mirrored(&self, arguments: &Value) -> Vec<(String, String)> {
        let schema = self.input_schema.as_object();
        let headers = schema.and_then(|schema| param_headers::find(schema).ok()).unwrap_or_default();
        let values = headers.into_iter().map(|header| (header.expected(arguments), header.field_name));
        values.filter_map(|(value, name)| Some((name, value?))).collect()
    }
}

/// Probes a server over Streamable HTTP, with TLS if `tls` is set. Selects the first of `revisions` that the
/// server supports.
///
/// # Errors
/// Returns an error if the server supports none of `revisions`, or if no valid response arrives within the
/// time `within`.
pub fn probe_http(
    endpoint: &Endpoint,
    address: &UpstreamAddr,
    tls: Option<&LoadTls>,
    revisions: &[Revision],
    within: Duration,
) -> Result<McpServerFacts, ProbeError> {
    run(within, async || {
        let way = ConnectSettings { address, tls, within };
        let mut channel = Channel::Http { endpoint, way, session: Vec::new() };
        let facts = ask(&mut channel, revisions).await;
        channel.end_session().await?;
        facts
    })
}

/// Probes a child process over its pipes. In the legacy era, the probe also begins the MCP session of the
/// load, in the returned revision.
///
/// # Errors
/// Returns an error if the server supports none of `revisions`, or if no valid response arrives within the
/// time `within`.
pub fn probe_child(
    child: &ChildServer,
    revisions: &[Revision],
    within: Duration,
) -> Result<McpServerFacts, ProbeError> {
    run(within, async || {
        let (input, output) = child.descriptors()?;
        let mut channel = Channel::Pipes { pipes: Pipes::watch(input, output)?, unread: Vec::new() };
        ask(&mut channel, revisions).await
    })
}

fn run<T>(within: Duration, asked: impl AsyncFnOnce() -> Result<T, ProbeError>) -> Result<T, ProbeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let timed = async { tokio::time::timeout(within, asked()).await };
    runtime.block_on(timed).unwrap_or(Err(ProbeError::TimedOut))
}

/// Finds the first of `revisions` that the server supports, and lists the tools.
async fn ask(channel: &mut Channel<'_>, revisions: &[Revision]) -> Result<McpServerFacts, ProbeError> {
    let mut agreed = Err(ProbeError::RevisionUnknown);
    for revision in revisions {
        agreed = agree(channel, *revision).await;
        // Tries no further revision if the server did not answer or has ended.
        if !matches!(&agreed, Err(ProbeError::Refused(..) | ProbeError::Status(_) | ProbeError::NoResponse)) {
            break;
        }
    }
    let revision = agreed?;
    let tools = match channel.ask(2, methods::TOOLS_LIST, json!({}), revision).await {
        Ok(result) => found_tools(&result),
        // A server without tools may still support other operations.
        Err(ProbeError::Refused(..)) => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(McpServerFacts { revision, tools })
}

async fn agree(channel: &mut Channel<'_>, revision: Revision) -> Result<Revision, ProbeError> {
    if revision.era() == Era::Modern {
        channel.ask(0, methods::SERVER_DISCOVER, json!({}), revision).await?;
        return Ok(revision);
    }
    let client = json!({"name": "thruway-bench", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client});
    let result = channel.ask(1, methods::INITIALIZE, params, revision).await?;
    // The server may select another revision.
    let revision = result["protocolVersion"].as_str().and_then(|name| name.parse().ok());
    let revision: Revision = revision.ok_or(ProbeError::RevisionUnknown)?;
    channel.notify_initialized(revision).await?;
    Ok(revision)
}

fn found_tools(result: &Value) -> Vec<FoundTool> {
    let tools = result["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(|tool| {
        Some(FoundTool { name: tool["name"].as_str()?.to_owned(), input_schema: tool["inputSchema"].clone() })
    });
    tools.collect()
}
