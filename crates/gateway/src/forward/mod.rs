//! Forwards a request to an upstream, and relays the response to the client.
//!
//! ```text
//! Forward ─▶ OutgoingRequest ─▶ SelectServer ─▶ AcquireConnection ─▶ SendHead ─▶ Relay ─▶ Report ─▶ client
//!            (head and          ▲ retry                                          │
//!            buffered body)     └──────── FailedAttempt, RejectedResponse ◀─────┘
//! ```

// the handler, and the request to the upstream
mod config;
mod handler;
mod request;
mod request_body;
mod request_id;
mod fields;
mod forwarded;

// attempts to send a request to a server
mod buffered;
mod forwarding;
mod future;
mod retry;
mod outcome;
mod rejected;
mod relay;
mod low_water;
mod timeouts;
mod timeline;
mod trace_fields;

// the response to the client
mod response;
mod response_body;

// changes and copies
mod rewrite;
mod mirror;

pub use config::{ForwardConfig, ForwardedFields, HostRewrite};
pub(crate) use fields::read_alike;
pub use handler::Forward;
pub use mirror::{Mirror, MirrorConfig, MirrorCounts};
pub(crate) use rewrite::Parameter;
pub use rewrite::{FieldRewrite, InvalidRewrite, PathRewrite, Rewrite, RoutePaths};
pub use timeouts::ForwardTimeouts;
