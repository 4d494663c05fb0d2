//! Clients: of our own servers, in memory and over HTTP, in both eras; of servers that misbehave, and of those that want tokens.

mod sites;
mod calls;
mod questions;
mod changes;
mod misbehaving;
mod children;
mod oauth;
