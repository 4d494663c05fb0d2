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
//! This crate does not parse HTTP/1.1, which is the task of `thruway-http1`. It does not open sockets, which
//! is the task of `thruway-net`.
#![forbid(unsafe_code)]

// handlers
mod handler;
mod request;
mod response;
mod router;
pub mod extractors;
mod content_coding;
mod files;
pub mod layers;

// integration with other crates
mod tower;

// settings and connections
mod config;
mod trusted;
mod connection_info;
mod connection;
mod http2;
mod protocol;
mod record;
mod access_log;
mod listener;
mod streams;
mod pre_handler;
mod live;
mod drivers;
mod server;

// tests of services
pub mod testing;

pub use access_log::{
    AccessLog, AccessLogFormat, AccessLogLines, AccessLogMembers, AccessLogSample, AccessLogTarget,
    AccessLogTemplate, InvalidTemplate, OpenTarget, Syslog, SyslogAddress, SyslogFacility,
};
pub use config::{Config, Timeouts};
pub use connection::ConnectionDriver;
pub use connection_info::{ConnectionInfo, ConnectionTls};
pub use content_coding::ContentCoding;
pub use files::{Files, InvalidFileCandidate, content_type_of_path};
pub use handler::{Answer, Handler, IntoHandler, Later, WithState, with_state, with_whole_content};
pub use http2::Http2Limits;
pub use listener::{AnswerFirst, Listener, ProxyProtocol};
pub use live::{BoundListeners, LiveServer};
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
pub use thruway_net::tls::{
    CertificateFiles, CertificateName, ClientAuthentication, PeerCertificate, TlsAcceptor, TlsAcceptorConfig,
    TlsInfo, TlsVersion,
};
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
