//! A small ACME server (RFC 8555) on loopback, which validates names and misbehaves on demand.
//!
//! Signatures are not verified, and nothing is kept: that is what Pebble is for. Numbers that must be fresh
//! are, URLs must be those that were signed, and a name is validated by connecting to a port.

mod answers;
mod orders;
mod server;
mod signed;
mod state;
mod validation;

pub use server::AcmeServer;
pub use state::Misbehaviour;
