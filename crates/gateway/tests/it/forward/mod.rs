//! Messages on their way through a gateway, between clients and upstreams of every kind.

// both sides
mod client;
mod recorder;
mod script;

// upstreams that fail
mod deadlines;
mod failures;
mod reuse;

// what is passed on
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

// slow sides
mod flow;

// requests that come back
mod loops;

pub(crate) use client::Client;
pub(crate) use recorder::{Recorded, Recorder};
pub(crate) use script::Script;
