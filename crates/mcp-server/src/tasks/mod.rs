//! Tasks: calls that continue after their answer. The extension `io.modelcontextprotocol/tasks` of 2026-07-28
//! (SEP-2663).
//!
//! A task drives the future of a handler independently of the handler's request. This module does not answer
//! requests; `dispatch/tasks.rs` does.
//!
//! ```text
//!   Called ──▶ Beginning         the call is still a request, and may end as one
//!     │            │
//!     ▼            ▼             the task is in the store: clients can query it
//!   Working ◀──▶ InputRequired   a question is open
//!     │            │
//!     ▼            ▼             the task has ended: the handler is dropped
//!   Completed | Failed | Cancelled
//! ```
//! The store removes a task in any state at the end of its time to live.

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
