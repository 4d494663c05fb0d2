//! MCP servers and clients: tools, resources and prompts, over stdio and Streamable HTTP, in both eras of the protocol.
//!
//! Nothing here knows what messages look like: that is `thruway-mcp`; nothing here parses HTTP or touches sockets: that
//! is `thruway-server`, and `thruway-client` on the other side.
#![forbid(unsafe_code)]

// what users write
mod handlers;
mod json_schema;
#[doc(hidden)]
pub mod expansion;

// what a server offers
mod registry;
mod server;
pub mod backend;

// from a message to its answer
mod dispatch;
mod ask;
mod session;
mod tasks;
mod connection;
mod shares;

// who may
mod authorization;

// the other side
mod client;

// servers that ask another one
mod bridge;

// bindings
mod http_response;
mod streamable_http;
mod http_sse;
mod stdio;
mod in_memory;

#[cfg(test)]
mod testing;

/// How clients get tokens: OAuth 2.1.
pub mod oauth {
    pub use crate::client::authorization::{
        IdentityProvider, Locking, LoggingIn, LoopbackRedirect, MemoryTokenStore, OAuth, OAuthError,
        PrivateKey, RegisteredClient, StoredToken, TokenLock, TokenStore, UserAgent,
    };
}

pub use authorization::{
    Authorization, Identity, InvalidKeys, InvalidToken, JwksVerifier, JwtVerifier, VerifyToken,
};
pub use bridge::{Bridge, BridgeOptions};
pub use client::{
    Direction, EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions, ServerNotification,
    Subscription, ToolOutcome,
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

/// Makes a tool of a function: what could be written with [`McpServer::tool`], read from how the function is written.
///
/// ```
/// use thruway_mcp_sdk::{BoxError, Context, McpServer, tool};
///
/// /// Repeats a text.
/// ///
/// /// This is part of the description too.
/// #[tool(title = "Echo", read_only, idempotent)]
/// fn echo(
///     /// What is repeated.
///     text: &str,
///     /// How often.
///     #[serde(default)]
///     #[schemars(range(max = 100))]
///     times: usize,
/// ) -> String {
///     text.repeat(times)
/// }
///
/// #[tool(name = "slow.count", scopes("count"))]
/// async fn count(to: u32, context: Context) -> Result<String, BoxError> {
///     for number in 1..=to {
///         context.progress(f64::from(number), Some(f64::from(to)), None).await;
///     }
///     Ok(format!("counted to {to}"))
/// }
///
/// let server = McpServer::new("echo", "1.0.0").with(echo {}).with(count {});
///
/// // The function is still there: a name with braces is the tool, one with parentheses calls the function.
/// assert_eq!(echo("ha", 2), "haha");
/// ```
///
/// The tool is named after the function, and its description is the documentation. What the function returns is what any
/// handler [may return](IntoAnswer). Neither serde nor schemars need be a dependency for its parameters.
///
/// # Parameters
/// | parameter | is |
/// |---|---|
/// | `name: T` | a member of the arguments; `T` can be read (`Deserialize`) and has a schema (`JsonSchema`) |
/// | `name: Option<T>` | one that may be left out; so may one with `#[serde(default)]` |
/// | `name: &str`, `&[T]`, `&T` | read as a `String`, a `Vec<T>`, a `T` |
/// | `#[tool(input)] name: T` | all of the arguments, read as a type of yours; it is the only parameter but for the next ones |
/// | `context: Context`, the last of an `async` function | the [`Context`] of the request |
/// | `call: &Call<'_>`, the last of another function | the [`Call`] that it is |
///
/// The documentation of a parameter is that of the member, and attributes of serde and schemars are the member's. `Context`
/// and `Call` are known by these names.
///
/// # Arguments of the attribute
/// | argument | says |
/// |---|---|
/// | `name = "…"` | what the tool is called, if not as the function is |
/// | `title = "…"` | its name for people |
/// | `description = "…"` | what it does, if the documentation does not say it |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | how it [behaves](schema::ToolAnnotations): `destructive = false` is said as well |
/// | `scopes("…", "…")` | what its callers [must have](McpServer::require_scopes) |
/// | `task_support = TaskSupport::…` | that its calls [become tasks](McpServer::task_tool) |
///
/// Values are expressions, a `const` for instance. What else there is to say of a [`Tool`](schema::Tool), and tools that hold
/// something, are for [`McpServer::tool`].
pub use thruway_mcp_macros::tool;

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
