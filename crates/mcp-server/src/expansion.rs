//! What the code that `#[tool]` writes names, so that its users need not depend on it. For nobody else: it
//! may change with any version.

use thruway_mcp::schema::CallToolResult;

use crate::handlers::IntoAnswer;

pub use {schemars, serde};

/// What can be the answer of a tool.
pub fn answer<T: IntoAnswer<CallToolResult>>(answer: T) -> T {
    answer
}

/// What the compiler must not take: each of these is one change away from what it takes.
///
/// ```
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// An answer that is none:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> f64 { a + b }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// A parameter that cannot be read:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: std::time::Instant, b: f64) -> String { b.to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// An argument that the attribute does not have:
/// ```compile_fail
/// #[thruway_mcp_server::tool(readonly)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The function in the place of the tool:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add).unwrap();
/// ```
#[cfg(doctest)]
struct Refused;
