//! An HTTP/1.1 connection to an upstream server. A connection carries one exchange at a time: a request
//! and its response.
//!
//! ```text
//! Connection ──start──▶ Exchange ──finish──▶ Connection, if it can be used again
//!                        │  poll_send ▶ poll_send ▶ … finish_content       the request, as fast as it is taken
//!                        │  begin_poll().poll_event ▶ Interim … Final ▶ Content … End   the response, lent from a buffer
//!                        └─ into_tunnel ──▶ the transport itself
//! ```
//! An exchange sends the request and receives the response at the same time. The caller polls the
//! exchange, so a relay can drive two connections in one task. An exchange owns its connection, and
//! dropping an unfinished exchange closes the connection. Only [`Exchange::finish`] returns the
//! connection, and only if RFC 9112 allows its reuse. The caller passes the current time as an argument,
//! and asks for the [deadline](Exchange::deadline). The crate `thruway-http1` implements the rules of
//! HTTP/1.1.

// the state of a connection
mod output;
mod state;

// the incoming response
mod response;

// the connection, and the outgoing request
mod exchange;
mod request;

pub use exchange::{Connection, Exchange, RequestToSend, Tunnel};
pub use response::{ReadBuffers, ResponseEvent, ResponsePoll};
