//! HTTP/2 connections to upstream servers (RFC 9113) with the `h2` library: many exchanges on one connection.
//!
//! ```text
//! Connection::new ──▶ Connection (clones share it) ──start──▶ Exchange, as over HTTP/1.1
//!                └──▶ Driver: a future that moves bytes, sends pings, and ends with the connection
//! ```
//! An exchange is polled like an HTTP/1.1 exchange. It returns the same events and errors. An upgrade becomes
//! an extended CONNECT, and a successful answer to that becomes the 101 that answers an upgrade.

mod octets;
mod head;
mod state;
mod exchange;
mod connection;

pub use connection::{Connection, Doubt, Driver, Http2Config};
pub use exchange::{Exchange, Tunnel};
pub use head::Spoken;
pub use octets::{Heard, Octets};
pub use state::Counted;
