//! HTTP server: accepts and drives connections, routes requests, sends responses.
//!
//! ```no_run
//! use thruway_server::{Request, Response, Router, Server};
//!
//! fn main() -> Result<(), thruway_server::ServerError> {
//!     let router = Router::new()
//!         .get("/", || "Hello, World!")
//!         .get("/users/{id}", |request: &Request| Response::text(format_args!("user {}", request.parameter("id"))));
//!     Server::new(router).listen("127.0.0.1:8080")?.run()
//! }
//! ```
//!
//! # Features
//! The first four features are on by default. A service that does not need them can build fewer crates with
//! `default-features = false`:
//!
//! - `compression`: the layers `layers::Compression` and `layers::ByListener`.
//! - `files`: the handler `Files`.
//! - `http2`: HTTP/2. Without it, listeners accept only HTTP/1.1.
//! - `tls`: listeners with TLS.
//! - `axum-extractors`: the extractor `extractors::Axum`, for extractors of axum and of other crates.
//! - `multipart`: the extractor `extractors::multipart::Multipart`, for forms with files.
//! - `websocket`: the extractor `extractors::websocket::WebSocketUpgrade`.
//!
//! This crate does not parse HTTP/1.1, which is the task of `thruway-http1`. It does not open sockets, which
//! is the task of `thruway-net`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "compression", feature = "files", feature = "http2", feature = "tls")),
    allow(dead_code, reason = "some functions have no other caller than an optional module")
)]

// handlers
mod handler;
mod request;
mod response;
mod router;
pub mod extractors;
#[cfg(any(feature = "compression", feature = "files"))]
mod content_coding;
#[cfg(feature = "files")]
mod files;
pub mod layers;

// integration with other crates
mod tower;

// settings and connections
mod config;
mod trusted;
mod connection_info;
mod connection;
#[cfg(feature = "http2")]
mod http2;
#[cfg(feature = "http2")]
mod protocol;
mod record;
mod access_log;
mod listener;
mod streams;
mod pre_handler;
mod live;
#[cfg(feature = "tls")]
mod tls_handshake;
mod drivers;
mod server;

// tests of services
pub mod testing;

pub use access_log::{
    AccessLog, AccessLogFormat, AccessLogLines, AccessLogMembers, AccessLogSample, AccessLogTarget,
    AccessLogTemplate, InvalidTemplate, OpenTarget, Syslog, SyslogAddress, SyslogFacility,
};
pub use config::{Config, Http2Limits, Timeouts};
pub use connection::ConnectionDriver;
pub use connection_info::{ConnectionInfo, ConnectionTls};
#[cfg(any(feature = "compression", feature = "files"))]
pub use content_coding::ContentCoding;
#[cfg(feature = "files")]
pub use files::{Files, InvalidFileCandidate, content_type_of_path};
pub use handler::{Answer, Handler, IntoHandler, Later, WithState, with_state, with_whole_content};
pub use listener::{AnswerFirst, Listener, ProxyProtocol};
pub use live::{BoundListeners, LiveServer};
#[cfg(feature = "http2")]
pub use protocol::HttpProtocol;
pub use record::{Record, Recorder, StreamRecord, TakeRecord, TakeStreamRecord};
pub use request::{
    CONTENT_BYTES_MAX, ContentError, OwnedRequest, Parameters, Rejection, Request, RequestContent,
    RequestPiece,
};
pub use response::{
    AtDrain, BoxError, Content, ContentStream, ContentWriter, Event, EventSender, Forwarded, InterimSender,
    IntoResponse, Json, Piece, Refused, Response, Tunnel, send_interim,
};
pub use router::{RouteError, Router, RouterWithState};
pub use server::{RunningServer, Server, ServerError};
pub use streams::{ClientStream, ServeStream};
pub use tower::Tower;
pub use trusted::{ProxyFields, TrustedProxies};

pub use cookie::Cookie;
pub use thruway_http1::Limits;
pub use thruway_message::{
    Authority, FieldLinesBuf, FieldName, FieldValue, Method, OwnedRequestHead, StatusCode, Version,
};
#[cfg(feature = "tls")]
pub use thruway_net::tls::{CertificateFiles, ClientAuthentication, TlsAcceptor, TlsAcceptorConfig};
pub use thruway_net::tls::{CertificateName, PeerCertificate, TlsInfo, TlsVersion};
pub use thruway_net::{
    ClientAddr, DrainHandle, DroppedLines, InvalidListenAddr, InvalidNetwork, ListenAddr, Network, Networks,
    Peer, ReloadSignal, ReopenSignal, TerminationSignals, WorkerLoad, WorkersHold, raise_descriptor_limit,
};

/// The programs in the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/coming-from-axum.md")]
struct ComingFromAxum;

/// The programs in the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/serve.md")]
struct Serve;
