//! Clients: of our own servers, in memory and over HTTP, in both eras; and of servers that misbehave.

pub(crate) mod sites;
pub(crate) mod calls;
mod questions;
mod changes;
pub(crate) mod misbehaving;
mod kept;
mod tasks;
mod sse;
mod children;
