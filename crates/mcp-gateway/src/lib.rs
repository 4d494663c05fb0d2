//! A gateway between MCP clients and MCP servers. A [`Bridge`] is an MCP server that forwards all requests to
//! another MCP server.
//!
//! A bridge consists of two parts. An MCP server with a special
//! [backend](thruway_mcp_server::backend::Backend) accepts the requests. An MCP client sends these requests
//! to the other server.
#![forbid(unsafe_code)]

mod bridge;
mod federation;
mod jwks;

pub use bridge::{Bridge, BridgeOptions};
pub use jwks::JwksVerifier;
