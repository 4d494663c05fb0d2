//! Functions, types and crates for the code that `#[tool]` generates. The crates `schemars` and `serde` are
//! included, so that applications need no further dependencies. Applications must not use this module
//! directly, because it may change in any version.

use thruway_mcp::schema::CallToolResult;

use crate::handlers::IntoAnswer;

pub use {schemars, serde};

/// Returns `answer` unchanged. Code that calls this function compiles only if a tool can return the type of
/// `answer`.
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
/// A tool cannot return the type `f64`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> f64 { a + b }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// serde cannot read a parameter of the type `Instant`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: std::time::Instant, b: f64) -> String { b.to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The attribute has the unknown argument `readonly`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(readonly)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add {}).unwrap();
/// ```
/// The program registers the function `add` instead of the tool `add {}`:
/// ```compile_fail
/// #[thruway_mcp_server::tool(read_only)]
/// fn add(a: f64, b: f64) -> String { (a + b).to_string() }
/// thruway_mcp_server::McpServer::new("calculator", "1.0.0").add(add).unwrap();
/// ```
#[cfg(doctest)]
struct Refused;
