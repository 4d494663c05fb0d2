//! HTTP clients: resolve, connect, pool, drive connections.
//!
//! The engine is polled and lends what it reads; the gateway's relay stands on it.
#![forbid(unsafe_code)]

// where requests go
mod address;
mod resolve;
mod connect;

// one connection
mod config;
mod error;
mod connection;

// those that wait
mod pool;

pub use address::{InvalidUpstreamAddr, UpstreamAddr};
pub use config::{Config, Timeouts};
pub use connect::{ConnectError, ConnectFailures, connect, connect_any};
pub use connection::{Connection, Exchange, RequestToSend, ResponseEvent, Tunnel, Turn};
pub use error::{Error, Retry, Side};
pub use pool::{Pool, PoolConfig};
pub use resolve::{Resolve, Resolving, SystemResolver, resolve};
