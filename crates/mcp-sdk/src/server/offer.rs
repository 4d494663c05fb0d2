//! What knows by itself how it is offered.

use super::{McpServer, RegistrationError};

/// What a server offers by [`McpServer::with`]: [a function with `#[tool]`](crate::tool), or a type that brings several things
/// that belong together.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use thruway_mcp_sdk::{McpServer, Offer, RegistrationError, schema::Tool, tool};
///
/// /// Says what time zone the counter is in.
/// #[tool]
/// fn zone() -> &'static str {
///     "UTC"
/// }
///
/// struct Counter(Arc<AtomicU64>);
///
/// impl Offer for Counter {
///     fn offer(self, server: &McpServer) -> Result<(), RegistrationError> {
///         server.add(zone {})?;
///         server.add_tool(Tool::new("count"), move || self.0.fetch_add(1, Ordering::Relaxed).to_string())
///     }
/// }
///
/// let server = McpServer::new("counter", "1.0.0").with(Counter(Arc::default()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be offered",
    label = "no tool",
    note = "the tool that `#[tool]` makes of a function has braces: `.with(function_name {{}})`"
)]
pub trait Offer {
    /// Offers it: with the methods of the server that begin with `add`.
    ///
    /// # Errors
    /// Something cannot be offered as it is.
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError>;
}
