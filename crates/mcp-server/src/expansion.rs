//! Items for the code that `#[tool]` generates, so that its users need no further dependencies. Not for other
//! uses: they may change in any version.

use thruway_mcp::schema::CallToolResult;

use crate::handlers::IntoAnswer;

pub use {schemars, serde};

/// Requires a return type that can be the answer of a tool.
pub fn answer<T: IntoAnswer<CallToolResult>>(answer: T) -> T {
    answer
}

/// Programs that must not compile. Each differs in one place from this one, which compiles:
///
/// ```
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The return type is no answer:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> f64 { a + b }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// A parameter type cannot be read:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: std::time::Instant, b: f64) -> String { b.to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The attribute has no such argument:
/// ```compile_fail
/// #[thruway_mcp_server::tool(readonly)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The function is used instead of the tool:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add).unwrap();
/// ```
#[cfg(doctest)]
struct Refused;
