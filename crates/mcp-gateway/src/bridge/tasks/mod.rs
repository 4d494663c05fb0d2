//! Tasks that cross a bridge. How a task stands, its server says; here is remembered whose it is, and which server works at it.
//!
//! Clients know a task by an id that is made here and cannot be guessed: servers may count, and one that is started again
//! counts from the beginning.

// what is remembered
mod table;
mod owner;

// what is said
mod said;
mod renaming;

// who says it
mod legacy;

pub(super) use legacy::{is_about_tasks, no_method};
pub(super) use owner::Listener;
pub(crate) use owner::{Owner, TasksOfSession};
pub(super) use renaming::Names;
pub(super) use renaming::{TASK_ID, is_related_to_task, replaced, string_at, stripped};
pub(super) use said::ID_BYTES_MAX;
pub(super) use table::{Reserved, Tasks, TasksMax};
