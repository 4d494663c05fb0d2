//! Connections: to the servers of an upstream, how many there may be, and the requests that wait for one.
//!
//! ```text
//! acquire ─▶ pool: one that waits │ limits, queue: permission ─▶ open ─▶ shared: one of HTTP/2 │ connect: a new one
//! ```

// how many there may be
pub(crate) mod queue;
pub(crate) mod limits;

// connections of one worker
pub(crate) mod pool;
pub(crate) mod http2_sharing;

// one for a request
pub(crate) mod acquire;
pub(crate) mod open;
pub(crate) mod connect;
pub(crate) mod exchange;
