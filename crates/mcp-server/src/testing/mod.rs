//! Tests of MCP servers without a port or a process.
//!
//! [`TestClient`] calls the tools, prompts and resources of a server in the same process, and converts their
//! results to types. The server handles the messages exactly as over standard input and output, so the tests
//! also cover schemas, layers, questions to the client and notifications.
//!
//! ```
//! use thruway_mcp_server::testing::{FormAnswer, TestClient, TestError};
//! use thruway_mcp_server::{Context, ElicitForm, HandlerError, McpServer, tool};
//! # use schemars::JsonSchema;
//! # use serde::Deserialize;
//! use serde_json::json;
//!
//! /// Adds two numbers.
//! #[tool(read_only)]
//! fn add(a: i64, b: i64) -> Result<i64, &'static str> {
//!     a.checked_add(b).ok_or("the sum is too large")
//! }
//!
//! #[derive(Deserialize, JsonSchema, ElicitForm)]
//! struct Guest {
//!     name: String,
//! }
//!
//! /// Greets the user.
//! #[tool]
//! async fn greet(context: Context) -> Result<String, HandlerError> {
//!     let guest: Guest = context.elicit("Who are you?").await?.or_fail()?;
//!     Ok(format!("Hello, {}!", guest.name))
//! }
//!
//! // In a test, this is the attribute `#[tokio::test]`.
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), TestError> {
//!     let server = McpServer::new("example", "1.0.0").with(add {}).with(greet {});
//!     let mut client = TestClient::new(&server).on_elicit(|form| {
//!         assert_eq!(form.message, "Who are you?");
//!         FormAnswer::accept(json!({"name": "Ada"}))
//!     });
//!
//!     assert_eq!(client.call::<i64>("add", json!({"a": 1, "b": 2})).await?, 3);
//!     assert_eq!(client.call::<String>("greet", json!({})).await?, "Hello, Ada!");
//!
//!     let failed = client.call::<i64>("add", json!({"a": i64::MAX, "b": 1})).await;
//!     assert_eq!(failed, Err(TestError::Tool("the sum is too large".to_owned())));
//!     Ok(())
//! }
//! ```
//!
//! # Revisions
//! The client uses the latest revision of the protocol. [`TestClient::with_revision`] selects another one.
//! The client then begins a session before its first request. The methods have the same effect in all
//! revisions.
//!
//! # Virtual time
//! The server and its handlers read the time from tokio. If the test pauses this time, timers pass at once:
//! whenever all tasks wait, tokio advances the time to the next timer. `#[tokio::test(start_paused = true)]`
//! needs the feature `test-util` of tokio.

mod answers;
mod client;
#[cfg(test)]
mod fields;

pub use answers::FormAnswer;
pub use client::{ReceivedNotification, TestClient, TestError};
#[cfg(test)]
pub(crate) use fields::field_lines;
