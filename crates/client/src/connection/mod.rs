//! An HTTP/1.1 connection to an upstream server, and its exchanges: one request and its response at a time.
//!
//! ```text
//! Connection ──start──▶ Exchange ──finish──▶ Connection, if it can be used again
//!                        │  poll_send ▶ poll_send ▶ … finish_content       the request, as fast as it is taken
//!                        │  begin_poll().poll_event ▶ Interim … Final ▶ Content … End   the response, lent from a buffer
//!                        └─ into_tunnel ──▶ the transport itself
//! ```
//! Both directions work at the same time and are polled, so a relay can drive two connections in one task. An
//! exchange owns its connection. Dropping an unfinished exchange closes the connection. Only
//! [`Exchange::finish`] returns a connection, and only if RFC 9112 allows its reuse. The caller passes the
//! time as an argument, and asks for the [deadline](Exchange::deadline). `thruway-http1` implements the rules
//! of HTTP/1.1.

// the activity of a connection
mod output;
mod state;

// the incoming response
mod response;

// the connection, and the outgoing request
mod exchange;
mod request;

pub use exchange::{Connection, Exchange, RequestToSend, Tunnel};
pub use response::{ReadBuffers, ResponseEvent, ResponsePoll};
