//! MCP servers: tools, resources and prompts, over stdio and Streamable HTTP. A server supports both eras of
//! the protocol: the legacy era with sessions (up to 2025-11-25), and the modern era with independent
//! requests (from 2026-07-28 on).
//!
//! `thruway-mcp` reads and writes messages, and `thruway-server` provides HTTP. This crate has no client: a
//! gateway that sends requests to other servers provides a [backend](crate::backend::Backend).
#![forbid(unsafe_code)]

// the API for the code of users
mod handlers;
mod json_schema;
#[doc(hidden)]
pub mod expansion;

// the contents of a server
mod registry;
mod server;
pub mod backend;

// the path from a message to its answer
mod dispatch;
mod ask;
mod session;
mod tasks;
mod connection;
mod shares;

// access control
mod authorization;

// transports
mod http_response;
mod streamable_http;
mod http_sse;
mod stdio;
mod in_memory;

#[cfg(test)]
mod testing;

pub use authorization::{
    AccessTokenRules, Authorization, Identity, InvalidKeys, InvalidToken, JwtVerifier, VerifyToken,
};
pub use handlers::{
    BoxError, Call, Context, Handler, HandlerError, IntoAnswer, Later, Layer, Next, NoInput, Outcome,
    ServerResult, Structured,
};
pub use http_sse::SseEndpoints;
pub use in_memory::LocalClient;
pub use registry::{CompletionInput, InvalidUriTemplate, RegistrationError, ResourceAnswer, UriParameters};
pub use server::{LegacySessions, McpServer, McpServerOptions, Offer};
pub use streamable_http::{McpBody, McpEndpoint, McpService};
pub use tasks::{TaskOptions, TaskSupport};
pub use thruway_mcp::{Revision, json_rpc, schema};
pub use thruway_net::ClientAddr;

/// Turns a function into a tool. The documentation of the function becomes the description of the tool, and
/// its parameters become the arguments. `thruway_mcp_sdk::tool` is the same attribute, with the documentation
/// of all its options.
///
/// ```
/// use thruway_mcp_server::{McpServer, tool};
///
/// /// Repeats a text.
/// #[tool(read_only)]
/// fn echo(text: &str) -> String {
///     text.to_owned()
/// }
///
/// let server = McpServer::new("echo", "1.0.0").with(echo {});
/// ```
pub use thruway_mcp_macros::server_tool as tool;
