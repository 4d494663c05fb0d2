//! Asks an MCP server for its protocol revision and its tools before the load starts.
//!
//! Over pipes, the probe begins the session that the load uses afterwards. Over HTTP, the probe uses
//! separate connections.

mod error;
mod exchange;
mod facts;

pub use error::ProbeError;
pub use facts::{FoundTool, McpServerFacts, probe_child, probe_http};
