//! HTTP clients: resolve, connect, pool, drive connections.
//!
//! [`Connection`], [`Exchange`] and [`Pool`] are the engine: it is polled, lends what it reads and knows no runtime; a
//! relay stands on it. [`Client`] is the comfortable way. HTTP/1.1 only, without TLS: that comes in as another
//! [`Transport`](thruway_net::Transport).
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

// all of it, for those who want an answer
mod client;

pub use address::{InvalidUpstreamAddr, UpstreamAddr};
pub use client::{Client, ClientConfig, ClientError, Event, Events, Request, Response};
pub use config::{Config, Timeouts};
pub use connect::{ConnectError, ConnectFailures, connect, connect_any};
pub use connection::{Connection, Exchange, RequestToSend, ResponseEvent, Tunnel, Turn};
pub use error::{Error, Retry, Side};
pub use pool::{Pool, PoolConfig};
pub use resolve::{Resolve, Resolving, SystemResolver, resolve};
