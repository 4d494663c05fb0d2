//! Connections of HTTP/2 to upstreams (RFC 9113), by the `h2` library: many exchanges on one connection.
//!
//! ```text
//! Connection::new ──▶ Connection (clones are of the same one) ──start──▶ Exchange, as over HTTP/1.1
//!                └──▶ Driver: a future that moves octets, asks whether the upstream is still there, and ends by itself
//! ```
//! An exchange is polled as one of HTTP/1.1 is, gives the same events and fails with the same errors.

mod octets;
mod head;
mod connection;
mod exchange;
mod timers;

pub use connection::{Connection, Driver, Http2Config};
pub use exchange::Exchange;
pub use head::request_of;
pub use octets::Octets;
