//! The servers that `thruway serve` and `thruway mcp serve` run without a config.
//!
//! [`router`] has HTTP endpoints for tests of clients, gateways and load generators. [`mcp`] has an MCP
//! server.

mod http;
pub mod mcp;

pub use http::router;
