//! Connections to the servers of an upstream: pools, limits, and the queue of requests that wait for a
//! connection.
//!
//! ```text
//! acquire ─▶ pool: one that waits │ limits, queue: permission ─▶ open ─▶ shared: one of HTTP/2 │ connect: a new one
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
