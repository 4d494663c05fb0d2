//! Forwards tasks of 2025-11-25. The server stores the state of each task. For each task, the bridge
//! stores the session of the client and the connection to the server.
//!
//! The bridge gives each task a random id for the client, because a server may use sequential ids that
//! start again when the server restarts.

// stored data
mod table;

// messages
mod fields;
mod json;

// requests
mod legacy;

pub(super) use fields::{ID_BYTES_MAX, is_about_tasks, no_method};
pub(super) use json::{TASK_ID, TaskIdTranslator, is_related_to_task, replaced, string_at, stripped};
pub(super) use table::{Reserved, TaskIdMap, TaskMessageSink, TaskOwner, Tasks, TasksMax, TasksOfSession};
