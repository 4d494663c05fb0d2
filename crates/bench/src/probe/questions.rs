//! Requests before a load: the revision and the tools.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_client::UpstreamAddr;
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, Revision, param_headers};

use super::error::ProbeError;
use super::exchange::{Channel, Way};
use crate::requests::Endpoint;
use crate::stdio::{ChildServer, Pipes};
use crate::worker::LoadTls;

/// Facts about a server, from its own responses.
#[derive(Clone, PartialEq, Debug)]
pub struct McpServerFacts {
    /// The revision that it is spoken to in.
    pub revision: Revision,
    /// Tools on the first page of the server's list; empty if the server does not list any.
    pub tools: Vec<FoundTool>,
}

/// A tool of a server.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundTool {
    /// Its name.
    pub name: String,
    /// The schema of its arguments.
    pub input_schema: Value,
}

impl FoundTool {
    /// The names of the arguments that it must have.
    pub fn required(&self) -> Vec<&str> {
        let required = self.input_schema["required"].as_array();
        required.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The header fields that mirror some of `arguments`.
    pub fn mirrored(&self, arguments: &Value) -> Vec<(String, String)> {
        let schema = self.input_schema.as_object();
        let headers = schema.and_then(|schema| param_headers::find(schema).ok()).unwrap_or_default();
        let values = headers.into_iter().map(|header| (header.expected(arguments), header.field_name));
        values.filter_map(|(value, name)| Some((name, value?))).collect()
    }
}

/// Asks a server over Streamable HTTP, in `tls` if that is spoken. The first of `revisions` that it speaks is
/// taken.
///
/// # Errors
/// It speaks none, or not so that it could be understood.
pub fn probe_http(
    endpoint: &Endpoint,
    address: &UpstreamAddr,
    tls: Option<&LoadTls>,
    revisions: &[Revision],
    within: Duration,
) -> Result<McpServerFacts, ProbeError> {
    run(within, async || {
        let way = Way { address, tls, within };
        let mut channel = Channel::Http { endpoint, way, session: Vec::new() };
        let facts = ask(&mut channel, revisions).await;
        channel.end_session().await?;
        facts
    })
}

/// Asks a child over its pipes. In the legacy era its session has begun then, in the revision that is
/// returned.
///
/// # Errors
/// It speaks none of `revisions`, or not so that it could be understood.
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

/// Finds the first of `revisions` that is spoken, and asks for the tools.
async fn ask(channel: &mut Channel<'_>, revisions: &[Revision]) -> Result<McpServerFacts, ProbeError> {
    let mut agreed = Err(ProbeError::RevisionUnknown);
    for revision in revisions {
        agreed = agree(channel, *revision).await;
        // Does not ask a server again that did not answer, or that ended.
        if !matches!(&agreed, Err(ProbeError::Refused(..) | ProbeError::Status(_) | ProbeError::NoResponse)) {
            break;
        }
    }
    let revision = agreed?;
    let tools = match channel.ask(2, methods::TOOLS_LIST, json!({}), revision).await {
        Ok(result) => found_tools(&result),
        // A server without tools can be loaded with something else.
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
    // The server may prefer another one.
    let spoken = result["protocolVersion"].as_str().and_then(|name| name.parse().ok());
    let spoken: Revision = spoken.ok_or(ProbeError::RevisionUnknown)?;
    channel.notify_initialized(spoken).await?;
    Ok(spoken)
}

fn found_tools(result: &Value) -> Vec<FoundTool> {
    let tools = result["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(|tool| {
        Some(FoundTool { name: tool["name"].as_str()?.to_owned(), input_schema: tool["inputSchema"].clone() })
    });
    tools.collect()
}
