//! Tools.

// results
mod content;
mod schemas;

// messages and questions before the result
mod messages;
mod questions;
mod rounds;

// long calls
mod tasks;

// changes to the server
mod changes;

// shared code, and the list of all tools
mod tool;
mod all;

pub(crate) use all::offer;
