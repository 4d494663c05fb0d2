//! Gateways: requests are forwarded to upstreams, and their responses relayed.
//!
//! The handler [`Forward`] stands on the server's side of a connection and drives one to an upstream in the same task. Which
//! octets make a message is known to `thruway-http1`; nothing here frames.
#![forbid(unsafe_code)]

// where requests go
mod upstream;

// a request on its way
mod forward;

// what became of it
mod failure;

pub use failure::Failure;
pub use forward::{Forward, ForwardConfig, ForwardedFields, HostRewrite};
pub use upstream::{
    Balance, CheckConfig, CheckKind, EjectionConfig, FirstLookup, HashBy, InvalidServerAddr,
    InvalidStatusRange, QueueConfig, RetryBudget, ServerAddr, ServerConfig, StatusRange, Sticky, Upstream,
    UpstreamConfig,
};
