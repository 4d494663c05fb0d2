//! Tasks that cross a bridge. The server knows the state of a task. The bridge stores its owner and its
//! server.
//!
//! Clients know a task by a random id that the bridge creates. Servers may use sequential ids, which restart
//! with the server.

// stored data
mod table;

// messages
mod fields;
mod json;

// requests
mod legacy;

pub(super) use fields::{ID_BYTES_MAX, is_about_tasks, no_method};
pub(super) use json::{TASK_ID, TaskNames, is_related_to_task, replaced, string_at, stripped};
pub(super) use table::{Listener, Names, Owner, Reserved, Tasks, TasksMax, TasksOfSession};
