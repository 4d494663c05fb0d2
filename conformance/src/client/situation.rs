//! The input of a scenario: environment variables and the last argument.

use std::env;

use serde_json::Value;
use thruway_mcp_sdk::schema::Implementation;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientOptions, Revision};

use super::Outcome;

/// The scenario to run.
pub(crate) struct Situation {
    pub(crate) scenario: String,
    pub(crate) url: String,
    /// Data for this scenario.
    pub(crate) context: Value,
    era: EraChoice,
}

impl Situation {
    pub(crate) fn read() -> Outcome<Self> {
        let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
        let url = env::args().next_back().ok_or("the URL of the server is missing")?;
        let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "null".to_owned());
        let revision: Revision = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?.parse()?;
        // For the latest revision, the client detects the era.
        let era = if revision == Revision::LATEST { EraChoice::Auto } else { EraChoice::Revision(revision) };
        Ok(Self { scenario, url, context: serde_json::from_str(&context)?, era })
    }

    /// Returns a client builder for the revision of the scenario.
    pub(crate) fn builder(&self) -> McpClientBuilder {
        let options = McpClientOptions {
            client_info: Implementation::new("thruway-conformance", env!("CARGO_PKG_VERSION")),
            era: self.era,
            ..McpClientOptions::default()
        };
        McpClient::builder().options(options)
    }
}
