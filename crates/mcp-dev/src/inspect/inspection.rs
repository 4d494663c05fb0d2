//! The description of a running server. It does not call tools and does not read resources.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};
use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::schema::{DiscoverResult, Prompt, Resource, ResourceTemplate, Tool};
use thruway_mcp_sdk::{McpClient, McpClientError, Revision};
use tokio::time::timeout;

/// The description of a server: its name, capabilities, tools, prompts and resources.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub(super) revision: Revision,
    pub(super) discovered: DiscoverResult,
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) resources: Vec<Resource>,
    pub(super) resource_templates: Vec<ResourceTemplate>,
    pub(super) errors: Vec<ListError>,
}

/// A list that the server declares in its capabilities, but does not send.
#[derive(Clone, Debug)]
pub struct ListError {
    /// The member of the JSON document that is incomplete, such as `tools`.
    pub list: &'static str,
    /// The reason.
    pub error: InspectError,
}

/// The reason why a part of the description is missing.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum InspectError {
    /// The request failed.
    Client(McpClientError),
    /// The server did not send the complete list in this time.
    TimedOut(Duration),
}

impl Inspection {
    /// Requests the description of the server, and then each list that the server declares in its
    /// capabilities. Requests nothing else. Waits at most `limit` for the description, and the same time for
    /// each list. If a list fails, the inspection contains the error and the other lists.
    ///
    /// The size of the lists is bounded, because the client limits the size of a list.
    ///
    /// # Errors
    /// The server is unreachable, or does not describe itself.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the current request. Nothing else is lost.
    pub async fn collect(client: &McpClient, limit: Duration) -> Result<Self, InspectError> {
        let discovered = within(limit, client.discover()).await?;
        let revision = within(limit, client.revision()).await?;
        let capabilities = discovered.capabilities.clone();
        let mut inspection = Self {
            revision,
            discovered,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
            errors: Vec::new(),
        };
        if capabilities.tools.is_some() {
            inspection.tools = inspection.kept("tools", within(limit, client.list_tools()).await);
        }
        if capabilities.prompts.is_some() {
            inspection.prompts = inspection.kept("prompts", within(limit, client.list_prompts()).await);
        }
        if capabilities.resources.is_some() {
            inspection.resources = inspection.kept("resources", within(limit, client.list_resources()).await);
            let templates = match within(limit, client.list_resource_templates()).await {
                // The capability `resources` does not include templates.
                Err(InspectError::Client(McpClientError::Server(error)))
                    if error.code == ErrorCode::METHOD_NOT_FOUND =>
                {
                    Ok(Vec::new())
                }
                templates => templates,
            };
            inspection.resource_templates = inspection.kept("resourceTemplates", templates);
        }
        Ok(inspection)
    }

    /// Returns the lists that the server declares, but did not send.
    pub fn errors(&self) -> &[ListError] {
        &self.errors
    }

    /// Returns the description as one JSON document. [`INSPECTION_FORMAT`] describes its format.
    pub fn to_json(&self) -> Value {
        let discovered = &self.discovered;
        let errors = self.errors.iter();
        let errors = errors.map(|error| json!({"list": error.list, "error": error.error.to_string()}));
        let mut document = Map::new();
        let mut put = |name: &str, value| drop(document.insert(name.to_owned(), value));
        put("inspectionFormat", INSPECTION_FORMAT.into());
        put("server", self.server().cloned().unwrap_or_default());
        put("revision", self.revision.as_str().into());
        put("supportedVersions", discovered.supported_versions.clone().into());
        put("capabilities", json!(discovered.capabilities));
        if let Some(instructions) = &discovered.instructions {
            put("instructions", instructions.clone().into());
        }
        put("tools", json!(self.tools));
        put("prompts", json!(self.prompts));
        put("resources", json!(self.resources));
        put("resourceTemplates", json!(self.resource_templates));
        put("errors", errors.collect());
        Value::Object(document)
    }

    /// Returns the data that the server reports about itself.
    pub(super) fn server(&self) -> Option<&Value> {
        self.discovered.meta.as_ref()?.get(SERVER_INFO)
    }

    /// Returns the entries of a list. If the list failed, records the error and returns an empty list.
    fn kept<T>(&mut self, list: &'static str, outcome: Result<Vec<T>, InspectError>) -> Vec<T> {
        outcome.unwrap_or_else(|error| {
            self.errors.push(ListError { list, error });
            Vec::new()
        })
    }
}

async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, McpClientError>>,
) -> Result<T, InspectError> {
    match timeout(limit, request).await {
        Ok(outcome) => outcome.map_err(InspectError::Client),
        Err(_) => Err(InspectError::TimedOut(limit)),
    }
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::TimedOut(limit) => write!(f, "the server did not send a complete answer within {limit:?}"),
        }
    }
}

impl std::error::Error for InspectError {}

/// Version of the JSON document, in its member `inspectionFormat`. A later version of Thruway may add
/// members without a new version. If a member changes its meaning or disappears, the number grows.
///
/// | member | value |
/// |---|---|
/// | `inspectionFormat` | this number |
/// | `server` | name, version and further data that the server reports about itself; `null` if absent |
/// | `revision` | MCP revision that client and server use |
/// | `supportedVersions` | MCP revisions that the server supports |
/// | `capabilities` | capabilities of the server |
/// | `instructions` | instructions for models; absent if the server has none |
/// | `tools`, `prompts`, `resources`, `resourceTemplates` | the complete lists, as in the MCP schema |
/// | `errors` | lists that the server declares, but did not send: `{"list": "tools", "error": "…"}` |
pub const INSPECTION_FORMAT: u32 = 1;

/// Member of `_meta` with the name and version of the server (MCP revision 2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
