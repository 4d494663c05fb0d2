//! Asks an MCP server for its revision and its tools before the load.
//!
//! Over pipes this is the beginning of the session that is loaded; over HTTP it has connections of its own.

mod error;
mod exchange;
mod questions;

pub use error::ProbeError;
pub use questions::{FoundTool, McpServerFacts, probe_child, probe_http};
