//! HTTP clients: resolve, connect, pool, drive connections.
//!
//! [`Connection`], [`Exchange`] and [`Pool`] are the engine: it is polled, lends what it reads and knows no
//! runtime; a relay stands on it. [`Client`] is the comfortable way. HTTP/1.1 only; whether TLS is spoken
//! below it is a matter of the [`Transport`](thruway_net::Transport).
//!
//! An exchange, as a relay drives it:
//!
//! ```no_run
//! use std::future::poll_fn;
//! use std::task::{Poll, ready};
//!
//! use thruway_client::{
//!     Config, Connection, Error, Pool, ReadBuffers, RequestToSend, ResponseEvent, UpstreamAddr, connect,
//! };
//! use thruway_http1::BodyLength;
//! use thruway_message::Method;
//! use thruway_net::Clock;
//!
//! # async fn example(
//! #     pool: &mut Pool, buffers: &ReadBuffers, address: &UpstreamAddr, clock: &Clock,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! # let config = Config::default();
//! let connection = match pool.acquire(address, clock.now()) {
//!     Some(connection) => connection,
//!     None => Connection::new(connect(address, config.timeouts.head).await?.into(), &config),
//! };
//! let request = RequestToSend::new(Method::Get, BodyLength::NONE);
//! let mut exchange =
//!     connection.start(request, clock.now(), |head| head.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
//! poll_fn(|cx| {
//!     // Here whoever has more to send asks `poll_room`, and calls `poll_send` and `finish_content`.
//!     let mut turn = exchange.turn(buffers);
//!     loop {
//!         match ready!(turn.poll_event(cx, clock.now()))? {
//!             ResponseEvent::Interim(head) => println!("{}", head.status),
//!             ResponseEvent::Final(head, body_length) => println!("{} {body_length:?}", head.status),
//!             // What the client does not take is put back; then the turn ends, until it does.
//!             ResponseEvent::Content(content) => println!("{}", content.escape_ascii()),
//!             ResponseEvent::End(_) | ResponseEvent::Tunnel(_) => return Poll::Ready(Ok::<_, Error>(())),
//!         }
//!     }
//!     // Pending: whoever has deadlines takes that of the exchange with them.
//! })
//! .await?;
//! if let Some(connection) = exchange.finish() {
//!     pool.release(address, connection, clock.now());
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// where requests go
mod url;
mod address;
mod resolve;
mod dns;
mod connect;
mod upstream_stream;

// one connection
mod config;
mod error;
mod timers;
mod connection;
mod upgrade;
pub mod http2;

// those that wait
mod pool;

// all of it, for those who want an answer
mod client;

pub use address::{InvalidUpstreamAddr, UpstreamAddr};
pub use client::{
    Client, ClientConfig, ClientError, Destination, DocumentConfig, DocumentUrl, Event, Events,
    FetchedDocument, InvalidDocumentUrl, KeptDocument, Request, Response,
};
pub use config::{Config, Timeouts};
pub use connect::{
    ConnectError, ConnectFailures, connect, connect_and_write, connect_any, secure, secure_for,
};
pub use connection::{Connection, Exchange, ReadBuffers, RequestToSend, ResponseEvent, Tunnel, Turn};
pub use dns::DnsResolver;
pub use error::{Error, Retry, Side};
pub use pool::{Pool, PoolConfig};
pub use resolve::{Resolve, Resolved, Resolving, ResolvingFor, SystemResolver, resolve};
pub use upgrade::{WebSocketAccept, websocket_accept};
pub use upstream_stream::UpstreamStream;
pub use url::{InvalidUrl, Url};
