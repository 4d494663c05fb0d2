//! Converts the options, targets and operations that a user gives to a [`Load`](crate::Load).

mod error;
mod options;
mod reach;
mod targets;
mod scenario;
mod operations;

pub use error::PlanError;
pub use operations::{InvalidOperations, McpOperations, OperationKind, describe_operations};
pub use options::{LoadOptions, TlsOptions};
pub use reach::{reachable_address, resolve_origin};
pub use scenario::ScenarioRequests;
pub use targets::{HttpOptions, parse_url, read_content, without_connection_option};
