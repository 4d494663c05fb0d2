//! What the suite says about a scenario: in the environment, and as the last argument.

use std::env;

use serde_json::Value;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientOptions, Revision};

use super::Outcome;

/// A scenario to go through.
pub(crate) struct Situation {
    pub(crate) scenario: String,
    pub(crate) url: String,
    /// What only this scenario says.
    pub(crate) context: Value,
    era: EraChoice,
}

impl Situation {
    pub(crate) fn read() -> Outcome<Self> {
        let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
        let url = env::args().next_back().ok_or("the URL of the server is missing")?;
        let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "null".to_owned());
        let revision: Revision = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?.parse()?;
        // Servers of the latest revision are found out to be what they are.
        let era = if revision == Revision::LATEST { EraChoice::Auto } else { EraChoice::Revision(revision) };
        Ok(Self { scenario, url, context: serde_json::from_str(&context)?, era })
    }

    /// A client that speaks as the scenario wants.
    pub(crate) fn builder(&self) -> McpClientBuilder {
        let options = McpClientOptions {
            client_info: Implementation::new("thruway-conformance", env!("CARGO_PKG_VERSION")),
            era: self.era,
            ..McpClientOptions::default()
        };
        McpClient::builder().options(options)
    }
}
