//! Clients: of our own servers, in memory and over HTTP, in both eras; of servers that misbehave, and of
//! those that want tokens.

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
