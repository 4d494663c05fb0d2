//! Clients of Thruway servers, in memory and over HTTP, in both eras. Also clients of servers that misbehave,
//! and of servers that require tokens.

pub(crate) mod sites;
pub(crate) mod calls;
mod questions;
mod changes;
pub(crate) mod misbehaving;
mod kept;
mod tasks;
mod legacy_tasks;
mod batches;
mod endless;
mod sse;
mod handshakes;
mod resumed;
mod runtimes;
mod closing;
mod children;
mod oauth;
