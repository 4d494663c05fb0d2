//! Calls that go on when they are answered: tasks, the extension `io.modelcontextprotocol/tasks` to
//! 2026-07-28 (SEP-2663).
//!
//! A task is the future of a handler that was taken away from its request. Nothing here knows how requests
//! are answered: that is `dispatch/tasks.rs`.
//!
//! ```text
//!   Called ──▶ Beginning         the call is a request still, and may end as one
//!     │            │
//!     ▼            ▼             it is in the store: clients can ask for it
//!   Working ◀──▶ InputRequired   while a question is open
//!     │            │
//!     ▼            ▼             it is over: the handler is dropped
//!   Completed | Failed | Cancelled
//! ```
//! When its time to live is over, it is forgotten, in whatever state it is.

// how they are set up
mod options;

// one of them
mod task;
mod view;

// all of them
mod store;

#[cfg(test)]
mod tests;

pub(crate) use options::Start;
pub use options::{TaskOptions, TaskSupport};
pub(crate) use store::Tasks;
pub(crate) use task::Task;
