//! Connections of HTTP/2 to upstreams (RFC 9113), by the `h2` library: many exchanges on one connection.
//!
//! ```text
//! Connection::new ──▶ Connection (clones are of the same one) ──start──▶ Exchange, as over HTTP/1.1
//!                └──▶ Driver: a future that moves octets, asks whether the upstream is still there, and ends by itself
//! ```
//! An exchange is polled as one of HTTP/1.1 is, gives the same events and fails with the same errors. An
//! upgrade becomes an extended CONNECT, and a success of that the 101 that answers an upgrade.

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
