//! Small ACME server (RFC 8555) on a loopback address. It validates names, and misbehaves if a test asks for
//! it.
//!
//! The server checks nonces and signed URLs, and connects to a port to validate a name. It does not verify
//! signatures and stores nothing on disk. The interoperability tests use Pebble for a stricter server.

mod responses;
mod orders;
mod server;
mod signed_request;
mod state;
mod validation;

pub use server::AcmeServer;
pub use state::Misbehavior;
