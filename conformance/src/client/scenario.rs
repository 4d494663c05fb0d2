//! Input from the suite: environment variables, and the last argument.

use std::env;

use serde_json::Value;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientOptions, Revision};

use super::Outcome;

/// The scenario to run.
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// URL of the server under test.
    pub(crate) url: String,
    /// Data for this scenario, in a form that depends on the scenario. `null` if absent.
    pub(crate) context: Value,
    era: EraChoice,
}

impl Scenario {
    /// Reads the scenario from the environment and the arguments.
    pub(crate) fn from_environment() -> Outcome<Self> {
        let name = env::var("MCP_CONFORMANCE_SCENARIO")?;
        let url = env::args().next_back().ok_or("the URL of the server is missing")?;
        let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "null".to_owned());
        let revision: Revision = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?.parse()?;
        // For the latest revision, the client detects the era.
        let era = if revision == Revision::LATEST { EraChoice::Auto } else { EraChoice::Revision(revision) };
        Ok(Self { name, url, context: serde_json::from_str(&context)?, era })
    }

    /// Returns a client builder with the scenario's protocol revision.
    pub(crate) fn builder(&self) -> McpClientBuilder {
        let options = McpClientOptions {
            client_info: Implementation::new("thruway-conformance", env!("CARGO_PKG_VERSION")),
            era: self.era,
            ..McpClientOptions::default()
        };
        McpClient::builder().options(options)
    }
}
