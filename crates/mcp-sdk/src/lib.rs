//! MCP servers: tools, resources and prompts, over stdio and Streamable HTTP, in both eras of the protocol.
//!
//! Nothing here knows what messages look like: that is `thruway-mcp`; nothing here parses HTTP or touches sockets: that
//! is `thruway-server`.
#![forbid(unsafe_code)]

// what users write
mod handlers;
mod json_schema;

// what a server offers
mod registry;
mod server;

// from a message to its answer
mod dispatch;
mod ask;
mod session;
mod tasks;
mod connection;

// who may
mod authorization;

// bindings
mod http_response;
mod streamable_http;
mod http_sse;
mod stdio;
mod in_memory;

#[cfg(test)]
mod testing;

pub use authorization::{Authorization, Identity, InvalidKeys, InvalidToken, JwtVerifier, VerifyToken};
pub use handlers::{
    BoxError, Call, Context, Handler, HandlerError, IntoAnswer, Later, Layer, Next, NoInput, Outcome,
    ServerResult, Structured,
};
pub use http_sse::SseEndpoints;
pub use in_memory::LocalClient;
pub use registry::{CompletionInput, InvalidUriTemplate, ResourceAnswer, UriParameters};
pub use server::{LegacySessions, McpServer, McpServerOptions, RegistrationError};
pub use streamable_http::{McpBody, McpEndpoint, McpService};
pub use tasks::{TaskOptions, TaskSupport};

pub use thruway_mcp::{Revision, json_rpc, schema};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
