//! The servers that `thruway serve` and `thruway mcp serve` run without a config.
//!
//! [`router`] returns HTTP endpoints for tests of clients, gateways and load generators. The module [`mcp`]
//! contains an MCP server.

mod http;
pub mod mcp;

pub use http::router;
