//! Items for the code that `#[tool]` generates, so that applications need no further dependencies.
//! Applications must not use these items directly, because they may change in any version.

use thruway_mcp::schema::CallToolResult;

use crate::handlers::IntoAnswer;

pub use {schemars, serde};

/// Returns `answer` unchanged. The compiler checks that the type of `answer` can be the answer of a tool.
pub fn answer<T: IntoAnswer<CallToolResult>>(answer: T) -> T {
    answer
}

/// Programs that the compiler must reject. Each program differs in one place from this program, which
/// compiles:
///
/// ```
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The return type cannot be the answer of a tool:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> f64 { a + b }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// serde cannot read the type of a parameter:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: std::time::Instant, b: f64) -> String { b.to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The attribute has an unknown argument:
/// ```compile_fail
/// #[thruway_mcp_server::tool(readonly)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The program registers the function instead of the tool:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add).unwrap();
/// ```
#[cfg(doctest)]
struct Refused;
