//! MCP servers that forward requests to other servers: [bridges](Bridge) in front of one server.
//!
//! A bridge is a [backend](thruway_mcp_server::backend::Backend) of an MCP server. It connects to the other
//! server with MCP clients.
#![forbid(unsafe_code)]

mod bridge;
mod jwks;

pub use bridge::{Bridge, BridgeOptions};
pub use jwks::JwksVerifier;
