//! Forwards tasks between clients and servers of MCP revision 2025-11-25. The server stores the state of each
//! task. The bridge stores the client's session and the connection to the server for each task.
//!
//! Each task has two ids: the id of the server, and a random id that the bridge gives to the client. The
//! random id is necessary because a server may use sequential ids, and use the same ids again after a
//! restart.

// stored data
mod table;

// messages
mod fields;
mod json;

// requests
mod legacy;
mod own;

pub(super) use fields::{ID_BYTES_MAX, is_about_tasks, no_method};
pub(crate) use json::replaced;
pub(super) use json::{TASK_ID, TaskIdTranslator, is_related_to_task, string_at, stripped};
pub(crate) use legacy::list_tasks;
pub(crate) use own::{ask_about_own_task, own_task_id};
pub(super) use table::{Reserved, TaskIdMap, TaskMessageSink, TaskOwner, Tasks, TasksMax, TasksOfSession};
