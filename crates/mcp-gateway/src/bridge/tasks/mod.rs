//! Tasks that cross a bridge. How a task stands, its server says; here is remembered whose it is, and which
//! server works at it.
//!
//! Clients know a task by an id that is made here and cannot be guessed: servers may count, and one that is
//! started again counts from the beginning.

// what is remembered
mod table;

// what is said
mod said;
mod json;

// who says it
mod legacy;

pub(super) use json::{TASK_ID, TaskNames, is_related_to_task, replaced, string_at, stripped};
pub(super) use said::{ID_BYTES_MAX, is_about_tasks, no_method};
pub(super) use table::{Listener, Names, Owner, Reserved, Tasks, TasksMax, TasksOfSession};
