//! Connections to the servers of an upstream: pools, limits, and the queue of requests that wait for a
//! connection.
//!
//! ```text
//! acquire ─▶ pool: idle connection ─▶ limits and queue: permit ─▶ open ─▶ share an HTTP/2 connection
//!                                                                     └─▶ connect
//! ```

// limits
pub(crate) mod queue;
pub(crate) mod limits;

// the connections of one worker
pub(crate) mod pool;
pub(crate) mod http2_sharing;

// a connection for a request
pub(crate) mod acquire;
pub(crate) mod open;
pub(crate) mod connect;
pub(crate) mod exchange;
