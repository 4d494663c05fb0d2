//! HTTP clients: name resolution, connecting, connection pools, and exchanges. An exchange is one request
//! with its response.
//!
//! The crate has two interfaces:
//! - [`Connection`], [`Exchange`] and [`Pool`] are the low-level interface, for relays such as a reverse
//!   proxy. The caller polls these types. Events borrow the received data, so the data is not copied. The
//!   low-level interface needs no async runtime.
//! - [`Client`] is the high-level interface. A client takes URLs and returns responses.
//!
//! Both interfaces use HTTP/1.1. The module [`http2`] provides the low-level interface for HTTP/2. The
//! [`Transport`](thruway_net::Transport) of a connection determines if the connection uses TLS.
//!
//! This example performs an exchange, as a relay does:
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
//!     // To send a body, call `poll_write_capacity`, `poll_send` and `finish_content` here.
//!     let mut poll = exchange.begin_poll(buffers);
//!     loop {
//!         match ready!(poll.poll_event(cx, clock.now()))? {
//!             ResponseEvent::Interim(head) => println!("{}", head.status),
//!             ResponseEvent::Final(head, body_length) => println!("{} {body_length:?}", head.status),
//!             // If the receiver cannot take all of `content`, put the remaining bytes back and end the poll.
//!             ResponseEvent::Content(content) => println!("{}", content.escape_ascii()),
//!             ResponseEvent::End(_) | ResponseEvent::Tunnel(_) => return Poll::Ready(Ok::<_, Error>(())),
//!         }
//!     }
//!     // While the poll is pending, a timer must wake the task at the deadline of the exchange.
//! })
//! .await?;
//! if let Some(connection) = exchange.finish() {
//!     pool.release(address, connection, clock.now());
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// addresses of servers
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

// idle connections
mod pool;

// the high-level client
mod client;

pub use address::{InvalidUpstreamAddr, UpstreamAddr};
pub use client::{
    Client, ClientConfig, ClientError, Destination, DocumentConfig, DocumentUrl, Event, Events,
    FetchedDocument, InvalidDocumentUrl, KeptDocument, Request, Response,
};
pub use config::{Config, Timeouts};
pub use connect::{
    ConnectError, ConnectFailures, connect, connect_and_write, connect_any, connect_to_speak_first, secure,
    secure_for,
};
pub use connection::{Connection, Exchange, ReadBuffers, RequestToSend, ResponseEvent, ResponsePoll, Tunnel};
pub use dns::DnsResolver;
pub use error::{Error, Retry, Side};
pub use pool::{Pool, PoolConfig};
pub use resolve::{Resolve, Resolved, Resolving, ResolvingFor, SystemResolver, resolve};
pub use upgrade::{WebSocketAccept, websocket_accept};
pub use upstream_stream::UpstreamStream;
pub use url::{InvalidUrl, Url};
