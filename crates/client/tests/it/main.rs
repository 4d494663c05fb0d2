//! Tests of connections, exchanges and pools, over connections in memory and over sockets.

mod line;

// one exchange
mod requests;
mod responses;
mod cuts;
mod damaged;
mod misbehaving;
mod timeouts;

// many exchanges
mod reuse;
mod sockets;

// the high-level client
mod client;
mod http2;
mod http2_upgrades;
mod https;
