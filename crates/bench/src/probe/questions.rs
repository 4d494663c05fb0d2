//! Which revision, and which tools.

use serde_json::{Value, json};
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, Revision, param_headers};

use super::ProbeError;
use super::exchange::Channel;

/// What a server has told of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct McpServerFacts {
    /// The revision that it is spoken to in.
    pub revision: Revision,
    /// Its tools, those of the first page of its list; none if it does not tell.
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

/// Finds the first of `revisions` that is spoken, and asks for the tools.
pub(super) async fn ask(
    channel: &mut Channel<'_>,
    revisions: &[Revision],
) -> Result<McpServerFacts, ProbeError> {
    let mut agreed = Err(ProbeError::RevisionUnknown);
    for revision in revisions {
        agreed = agree(channel, *revision).await;
        // Whoever has said nothing, or has gone, is not asked again.
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
