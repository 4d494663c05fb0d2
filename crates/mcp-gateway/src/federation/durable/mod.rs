//! Durable tasks: a gateway stores its tasks outside of its process, so that other gateways can answer for them after
//! this gateway has ended.
//!
//! Only tasks that end with this gateway need this: the tasks of its child processes, and the tasks of legacy members,
//! because their clients need a session of this gateway. A task of a modern member over HTTP lives at the member, and
//! each gateway can open its id.
//!
//! ```text
//!   call becomes a task ──▶ record in the archive ──▶ the client gets the task id
//!                                    ▲
//!   watch: polls the member ─────────┘ with each new status, and with the result
//! ```

// the interface to the store
mod archive;

// stored tasks
mod record;
mod budget;
mod task_store;

// running tasks
mod durable_tasks;
mod watch;

#[cfg(test)]
mod tests;

pub use archive::{ArchiveError, ArchiveFuture, TaskArchive};
pub(super) use durable_tasks::DurableTasks;
pub(super) use record::{TaskRecord, is_error, shows_end};
pub(super) use watch::AskTask;
