//! Forwards requests to upstream servers, and relays their responses to the clients.
//!
//! [`Routes`] selects the handler of a request by host, path, method, headers and query. The handler
//! [`Forward`] forwards requests: one task serves the connection of the client and drives the connection to
//! the upstream server. This crate contains no HTTP/1.1 framing, which is the task of the crate
//! `thruway-http1`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use thruway_gateway::{
//!     AddressesConfig, Forward, Guarded, PathMatch, Policy, PolicyConfig, RouteMatch, Routes, Upstream,
//!     UpstreamConfig,
//! };
//! use thruway_server::{Handler, IntoHandler, Network, Networks, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = Arc::new(Upstream::new(UpstreamConfig::new("backend", ["127.0.0.1:9001".parse()?])));
//! let forward: Arc<dyn Handler> = Arc::new(Forward::new(upstream));
//!
//! // Only clients on this machine may use `/admin`.
//! let local: Networks = ["127.0.0.0/8".parse::<Network>()?].into_iter().collect();
//! let local = AddressesConfig { allow: Some(local), ..AddressesConfig::default() };
//! let policy = Arc::new(Policy::new("local", PolicyConfig::Addresses(local)));
//! let admin = Guarded::new(policy, "admin", forward.clone());
//!
//! let at = |path: &str| RouteMatch::at(PathMatch::Prefix(path.to_owned()));
//! let routes = Routes::new(vec![(at("/"), forward), (at("/admin"), admin.into_handler())]);
//! let server = Server::new(routes.expect("no route hides another one")).listen("127.0.0.1:0")?.start()?;
//! server.drain();
//! server.join();
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// selection of a handler
mod routes;
mod redirect;
mod split;

// changes to responses
mod response_rules;
mod error_pages;

// checks before a request is handled
mod policy;

// servers
mod upstream;

// forwarding of requests
mod forward;

// tunnels to destinations that clients name
mod connect_method;

// TCP forwarding
mod tcp;
mod tunnel;

// failures and counters
mod failure;
mod meter;
mod measured;

pub use connect_method::{Connect, ConnectConfig};
pub use error_pages::{ErrorPage, ErrorPages};
pub use failure::Failure;
pub use forward::{
    FieldRewrite, Forward, ForwardConfig, ForwardTimeouts, ForwardedFields, HostRewrite, InvalidRewrite,
    Mirror, MirrorConfig, MirrorCounts, PathRewrite, Rewrite, RoutePaths,
};
pub use measured::{Measured, TracedMeasured};
pub use meter::{ActiveCount, ClientAttributes, RequestDurations, RouteMeter, ServerAttributes};
pub use policy::*;
pub use redirect::{InvalidRedirect, Redirect};
pub use response_rules::{ListenerSettings, ResponseRule, ResponseRules};
pub use routes::{
    AmbiguousPath, Candidate, Conditions, Expected, ExpectedValue, HostMatch, InvalidHost, InvalidPattern,
    InvalidRegex, ListenerRoutes, NegatedConditions, PathMatch, PathPattern, PathReadings, RecordedRoute,
    RouteMatch, RouteRegex, Routes, RoutesOfListener, SpecialConditions, TracedRoute, UnclearPath,
    Unfulfilled, UnloggedRoute, Unreachable, normalized_path,
};
pub use split::Split;
pub use tcp::{ServerNames, StreamCounts, StreamEnd, TcpConfig, TcpForward};
pub use thruway_net::ProxyVersion;
pub use upstream::{
    AdminState, Balance, CheckConfig, CheckKind, EjectionConfig, FirstLookup, HashBy, HealthEvent,
    HealthNews, HealthSharing, HealthSharingCounts, InvalidServerAddr, InvalidStatusRange, QueueConfig,
    ResolverConfig, ResponseCounts, RetryBudget, ServerAddr, ServerConfig, ServerLookup, ServerState,
    ServerStatus, StateChange, StatusRange, Sticky, Upstream, UpstreamConfig, UpstreamTls, WaitingCounts,
    look_up_servers,
};
