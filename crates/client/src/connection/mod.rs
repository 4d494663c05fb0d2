//! One connection to an upstream, and the exchanges on it: one request and its response at a time.
//!
//! ```text
//! Connection ──start──▶ Exchange ──finish──▶ Connection, if it can be used again
//!                        │  poll_send ▶ poll_send ▶ … finish_content       the request, as fast as it is taken
//!                        │  turn().poll_event ▶ Interim … Final ▶ Content … End   the response, lent from a buffer
//!                        └─ into_tunnel ──▶ the transport itself
//! ```
//! Both directions go on at the same time, and all of it is polled: whoever relays drives two connections in
//! one task. An exchange owns its connection. What is dropped half-way is closed; only [`Exchange::finish`]
//! gives a connection back, and only if RFC 9112 lets it be used again. Time comes in as an argument, and
//! goes out as a [deadline](Exchange::deadline). The rules of HTTP/1.1 are in `thruway-http1`.

// what a connection is doing
mod output;
mod state;

// the response in
mod response;

// the connection, and the request out
mod exchange;
mod request;

pub use exchange::{Connection, Exchange, RequestToSend, Tunnel};
pub use response::{ReadBuffers, ResponseEvent, Turn};
