//! Tools.

// what they answer
mod content;
mod schemas;

// what they say before they answer
mod messages;
mod questions;
mod rounds;

// what they do when they are answered
mod tasks;

// what they do to the server
mod changes;

// what they have in common, and all of them
mod tool;
mod all;

pub(crate) use all::offer;
