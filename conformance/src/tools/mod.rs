//! Tools.

// results
mod content;
mod schemas;

// messages and requests to the client before the result
mod messages;
mod input_requests;
mod multi_round;

// long calls
mod tasks;

// changes to the server
mod changes;

// shared code, and the list of all tools
mod tool;
mod all;

pub(crate) use all::register;
