//! Gateways: requests are forwarded to upstreams, and their responses relayed.
//!
//! [`Routes`] finds the handler of a request by host, path, method, header and query. The handler [`Forward`]
//! serves a connection of a client and drives one to an upstream in the same task. `thruway-http1` frames
//! messages; this crate does not.
#![forbid(unsafe_code)]

// selection of a handler
mod routes;
mod redirect;
mod split;

// checks before a request is handled
mod policy;

// servers
mod upstream;

// forwarding of requests
mod forward;

// tunnels to where clients name
mod connect_method;

// TCP forwarding
mod tcp;
mod tunnel;

// failures and counters
mod failure;
mod meter;

pub use connect_method::{Connect, ConnectConfig};
pub use failure::Failure;
pub use forward::{
    FieldRewrite, Forward, ForwardConfig, ForwardTimeouts, ForwardedFields, HostRewrite, InvalidRewrite,
    Mirror, MirrorConfig, MirrorCounts, PathRewrite, Rewrite,
};
pub use meter::{ClientAttributes, Measured, RequestDurations, RouteMeter, ServerAttributes};
pub use policy::*;
pub use redirect::{InvalidRedirect, Redirect};
pub use routes::{
    AmbiguousPath, Candidate, Conditions, Expected, HostMatch, InvalidHost, InvalidPattern, LiveRoutes,
    PathMatch, PathPattern, PathReadings, RouteMatch, Routes, UnclearPath, Unfulfilled, Unreachable,
    normalized_path,
};
pub use split::Split;
pub use tcp::{ServerNames, StreamCounts, StreamEnd, TcpConfig, TcpForward};
pub use thruway_net::ProxyVersion;
pub use upstream::{
    AdminState, Balance, CheckConfig, CheckKind, EjectionConfig, FirstLookup, HashBy, InvalidServerAddr,
    InvalidStatusRange, QueueConfig, ResolverConfig, ResponseCounts, RetryBudget, ServerAddr, ServerConfig,
    ServerLookup, ServerState, ServerStatus, StatusRange, Sticky, Upstream, UpstreamConfig, UpstreamTls,
    WaitingCounts, look_up_servers,
};
