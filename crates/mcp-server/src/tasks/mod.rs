//! Tasks: tool calls that continue after the server has answered with a task id. Tasks are the extension
//! `io.modelcontextprotocol/tasks` of MCP revision 2026-07-28 (SEP-2663).
//!
//! A task continues to poll the future of a handler after the request has been answered. This module does not
//! answer requests. The module `dispatch::tasks` answers requests about tasks.
//!
//! ```text
//!   Called ──▶ Beginning         the call is still a request, and may end without a task
//!     │            │
//!     ▼            ▼             the task is in the store: clients can query it
//!   Working ◀──▶ InputRequired   a question is open
//!     │            │
//!     ▼            ▼             the task has ended: the handler is dropped
//!   Completed | Failed | Cancelled
//! ```
//!
//! The store removes a task when its time to live is over, no matter which state the task is in.

// settings
mod options;

// a single task
mod task;
mod view;

// all tasks
mod store;

#[cfg(test)]
mod tests;

pub(crate) use options::Start;
pub use options::{TaskOptions, TaskSupport};
pub(crate) use store::Tasks;
pub(crate) use task::Task;
