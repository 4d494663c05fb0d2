//! MCP servers that forward requests to other MCP servers. A [bridge](Bridge) forwards all its requests
//! to one other server.
//!
//! A bridge implements the [backend](thruway_mcp_server::backend::Backend) of an MCP server. To reach the
//! other server, the bridge uses an MCP client.
#![forbid(unsafe_code)]

mod bridge;
mod jwks;

pub use bridge::{Bridge, BridgeOptions};
pub use jwks::JwksVerifier;
