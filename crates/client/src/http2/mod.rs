//! HTTP/2 connections to upstream servers (RFC 9113), with the `h2` library. One connection carries many
//! exchanges.
//!
//! ```text
//! Connection::new ──▶ Connection (clones share it) ──start──▶ Exchange, as over HTTP/1.1
//!                └──▶ Driver: a future that moves bytes, sends pings, and ends with the connection
//! ```
//! The caller polls an exchange like an HTTP/1.1 exchange, and gets the same events and errors. The
//! connection sends an upgrade as an extended CONNECT request. The exchange reports a successful response
//! to an extended CONNECT request as a 101 response.
//!
//! ```no_run
//! use std::future::poll_fn;
//!
//! use thruway_client::http2::{Connection, Http2Config};
//! use thruway_client::{Config, Error, RequestToSend, ResponseEvent, UpstreamStream};
//! use thruway_http1::BodyLength;
//! use thruway_message::Method;
//! use thruway_net::{Clock, spawn};
//!
//! # async fn example(stream: UpstreamStream, clock: &Clock) -> Result<(), Error> {
//! let (config, http2) = (Config::default(), Http2Config::default());
//! let (mut connection, driver) = Connection::new(stream, &config, &http2, clock, None).await?;
//! spawn(driver);
//! let request = RequestToSend::new(Method::Get, BodyLength::NONE);
//! let mut exchange = connection.start(request, clock.now(), |head| {
//!     head.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
//! })?;
//! while !exchange.is_complete() {
//!     poll_fn(|cx| {
//!         exchange.poll_event(cx, clock.now()).map_ok(|event| {
//!             if let ResponseEvent::Final(head, _) = event {
//!                 println!("{}", head.status);
//!             }
//!         })
//!     })
//!     .await?;
//! }
//! # Ok(())
//! # }
//! ```

mod byte_stream;
mod head;
mod state;
mod exchange;
mod connection;

pub use byte_stream::{ByteStream, ReceivedBytes};
pub use connection::{Connection, Driver, Http2Config, PingRequest};
pub use exchange::{Exchange, Tunnel};
pub use head::ConvertedRequest;
pub use state::Counted;
