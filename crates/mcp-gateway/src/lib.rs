//! MCP servers that forward requests to other MCP servers. A [bridge](Bridge) forwards the requests to
//! one server.
//!
//! A bridge is a [backend](thruway_mcp_server::backend::Backend) of an MCP server. The bridge connects to
//! the other server as an MCP client.
#![forbid(unsafe_code)]

mod bridge;
mod jwks;

pub use bridge::{Bridge, BridgeOptions};
pub use jwks::JwksVerifier;
