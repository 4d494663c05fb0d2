//! Tools for authors of MCP servers. The command `thruway mcp` uses them.
//!
//! [`Inspection`] describes a running server with its tools, prompts and resources:
//!
//! ```
//! use std::time::Duration;
//!
//! use thruway_mcp_dev::Inspection;
//! use thruway_mcp_sdk::schema::Tool;
//! use thruway_mcp_sdk::{McpClient, McpServer};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = McpServer::new("clock", "1.0.0").tool(Tool::new("now"), || "noon");
//! let client = McpClient::builder().server(&server);
//! let inspection = Inspection::collect(&client, Duration::from_secs(10)).await?;
//! assert_eq!(inspection.to_json()["tools"][0]["name"], "now");
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod commands;
mod dev;
mod inspect;
mod install;
mod message;
mod new;

pub use commands::AuthorCommand;
pub use inspect::{INSPECTION_FORMAT, InspectError, Inspection, ListError};
pub use install::{Application, ConfigChange, Places, Plan, Scope, ServerEntry, ServerTarget, Written};
pub use message::CommandError;
pub use new::{CrateSource, InvalidPackageName, NewProject, PackageName};
