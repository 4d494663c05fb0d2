//! MCP servers that offer tools, resources and prompts over stdio and Streamable HTTP. A server supports both
//! eras of the protocol. The legacy era (MCP revisions up to 2025-11-25) has sessions. In the modern era
//! (since MCP revision 2026-07-28), each request is independent.
//!
//! The crate `thruway-mcp` parses and writes messages, and `thruway-server` provides the HTTP server. This
//! crate contains no MCP client. A gateway that forwards requests to other MCP servers implements a
//! [backend](crate::backend::Backend).
#![forbid(unsafe_code)]

// the API that applications use
mod handlers;
mod json_schema;
#[doc(hidden)]
pub mod expansion;

// servers, and the items that they offer
mod registry;
mod server;
pub mod backend;

// handling of messages
mod dispatch;
mod ask;
mod session;
mod tasks;
mod connection;
mod shares;
mod replica_ids;

// access control
mod authorization;

// transports
mod http_response;
mod streamable_http;
mod http_sse;
mod stdio;
mod in_memory;

// tests of applications
pub mod testing;

pub use authorization::{
    AccessTokenRules, Authorization, CallerToken, Identity, InvalidKeys, InvalidResource, InvalidToken,
    JwtVerifier, ProtectedResource, VerifyToken,
};
pub use handlers::{
    BoxError, Call, Context, ElicitForm, Elicited, FormChoice, FormField, Handler, HandlerError, IntoAnswer,
    Later, Layer, Next, NoInput, Outcome, ServerResult, Structured,
};
pub use http_sse::SseEndpoints;
pub use in_memory::LocalClient;
pub use registry::{CompletionInput, InvalidUriTemplate, RegistrationError, ResourceAnswer, UriParameters};
pub use replica_ids::{ReplicaId, ReplicaIds};
pub use server::{ChangeSharing, LegacySessions, McpServer, McpServerOptions, Offer, SharedChanges};
pub use session::{ArchivedEvent, ClientSession, EventArchive};
pub use streamable_http::{McpBody, McpEndpoint, McpService};
pub use tasks::{TaskOptions, TaskSupport};
pub use thruway_mcp::{Revision, json_rpc, schema};
pub use thruway_net::ClientAddr;

/// Turns a struct into a form that [`Context::elicit`] shows to the user, and an enum into a choice in forms.
/// `thruway_mcp_sdk::ElicitForm` is the same derive macro; its documentation describes all options.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use thruway_mcp_server::{Context, ElicitForm, HandlerError, tool};
///
/// #[derive(Deserialize, JsonSchema, ElicitForm)]
/// struct Guest {
///     /// The name of the guest.
///     name: String,
/// }
///
/// /// Greets the user.
/// #[tool]
/// async fn greet(context: Context) -> Result<String, HandlerError> {
///     let guest: Guest = context.elicit("Who are you?").await?.or_fail()?;
///     Ok(format!("Hello, {}!", guest.name))
/// }
/// ```
pub use thruway_mcp_macros::ServerElicitForm as ElicitForm;
/// Implements [`Offer`] for a type with methods as tools, prompts and resources. [`McpServer::with`] adds all
/// methods with [`#[tool]`](tool), [`#[prompt]`](prompt) or [`#[resource]`](resource) in the `impl` block to a
/// server. The methods share one value of the type.
/// `thruway_mcp_sdk::offer` is the same attribute; its documentation describes all options.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use thruway_mcp_server::{McpServer, offer, tool};
///
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// #[offer]
/// impl Counter {
///     /// Adds to the counter.
///     #[tool]
///     fn add(&self, amount: u64) -> String {
///         format!("the counter was {}", self.0.fetch_add(amount, Ordering::Relaxed))
///     }
/// }
///
/// let server = McpServer::new("counter", "1.0.0").with(Counter::default());
/// ```
pub use thruway_mcp_macros::server_offer as offer;
/// Turns a function into a prompt. `thruway_mcp_sdk::prompt` is the same attribute; its documentation
/// describes all options.
///
/// ```
/// use thruway_mcp_server::{McpServer, prompt};
///
/// /// Reviews a book.
/// #[prompt]
/// fn review(title: &str, words: Option<u32>) -> String {
///     format!("Review `{title}` in {} words.", words.unwrap_or(100))
/// }
///
/// let server = McpServer::new("library", "1.0.0").with(review {});
/// ```
pub use thruway_mcp_macros::server_prompt as prompt;
/// Turns a function into a resource or a resource template. `thruway_mcp_sdk::resource` is the same
/// attribute; its documentation describes all options.
///
/// ```
/// use thruway_mcp_server::{McpServer, resource};
///
/// /// A page of a book.
/// #[resource("book://{title}/{page}", mime_type = "text/plain")]
/// fn page(title: &str, page: u32) -> Result<String, &'static str> {
///     if page == 0 { Err("the first page is 1") } else { Ok(format!("page {page} of {title}")) }
/// }
///
/// let server = McpServer::new("library", "1.0.0").with(page {});
/// ```
pub use thruway_mcp_macros::server_resource as resource;
/// Turns a function into a tool. The doc comment of the function becomes the description of the tool, and the
/// function's parameters become the tool's arguments. `thruway_mcp_sdk::tool` is the same attribute; its
/// documentation describes all options.
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
