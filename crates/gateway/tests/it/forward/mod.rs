//! Tests of messages that a gateway forwards between clients and upstream servers of every kind.

// Clients and upstream servers
mod client;
mod recorder;
mod script;

// Upstream servers that fail
mod deadlines;
mod failures;
mod retry_statuses;
mod reuse;

// Forwarded messages
mod buffered;
mod compressed;
mod contents;
mod fields;
mod large;
mod proxied;
mod proxies;
mod rewriting;
mod mirrors;
mod tunnels;
mod uploads;

// Slow clients and upstream servers
mod flow;

// Loops
mod loops;

pub(crate) use client::Client;
pub(crate) use recorder::{Recorded, Recorder};
pub(crate) use script::Script;
