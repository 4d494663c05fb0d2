//! Limits and timeouts of a server.

use std::time::Duration;

use thruway_http1::Limits;

use crate::http2::Http2Limits;
use crate::trusted::TrustedProxies;

/// How much a server takes on, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How large one message may be.
    pub limits: Limits,
    /// Requests of one connection that are being answered at the same time; the next are not read before.
    /// Default 64. Only requests with safe methods are answered at the same time at all (RFC 9112 §9.3.2).
    pub pipelined_requests: usize,
    /// Octets of answers that wait to be written on one connection before no further request is answered and
    /// no further content asked for. Default 64 KiB. Smaller costs more system calls, larger more memory for
    /// clients that do not read.
    pub output_bytes: usize,
    /// Octets of request content read ahead of what a handler has taken. Default 64 KiB.
    pub content_window_bytes: usize,
    /// Octets of request content that are read and thrown away when a handler does not want them, so that the
    /// connection can be used again. Default 256 KiB; beyond, the connection ends.
    pub discard_bytes: u64,
    /// How much a connection of HTTP/2 takes on, where that is spoken.
    pub http2: Http2Limits,
    /// Whose word is taken for who asks. Default nobody's: who asks is the other end of the connection.
    pub trusted_proxies: TrustedProxies,
    /// How long to wait for what.
    pub timeouts: Timeouts,
}

/// How long a connection waits for its client. All are exact to a few hundred milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the first octet of a request to the end of its header section; then 408. Default 10 s.
    pub header_section: Duration,
    /// Maximum time that a client may fall behind with a request body; then it gets 408. A body of which
    /// nothing arrives for this time has failed, however fast it was before. The time in which the handler
    /// does not read does not count. Default 20 s.
    pub content: Duration,
    /// Minimum rate of a request body, in bytes per second. A slower body falls behind, and fails when it is
    /// behind by [`content`](Self::content). A faster one catches up, but cannot save time for a later pause.
    /// Default 500.
    pub content_rate_min: u64,
    /// Without a request on an open connection; then it is closed. Default 60 s.
    pub idle: Duration,
    /// Without progress on an answer whose client has closed its sending side: most of them have gone, so
    /// what is done for them is given up. Default 1 s. Longer serves those that only half-close, such as `nc
    /// -N`; shorter spares upstreams.
    pub half_closed: Duration,
    /// Without progress when writing to a client that does not read, and sends no content of requests either;
    /// then it is cut off. Default 30 s.
    pub write_stall: Duration,
    /// After an answer that ends the connection, for the client to read it and close; not if it has asked for
    /// the end and sent nothing more. Default 2 s.
    pub linger: Duration,
    /// For connections to end when the server drains; then they are cut off. Default 30 s.
    pub drain: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            pipelined_requests: 64,
            output_bytes: 64 << 10,
            content_window_bytes: 64 << 10,
            discard_bytes: 256 << 10,
            http2: Http2Limits::default(),
            trusted_proxies: TrustedProxies::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header_section: Duration::from_secs(10),
            content: Duration::from_secs(20),
            content_rate_min: 500,
            idle: Duration::from_mins(1),
            half_closed: Duration::from_secs(1),
            write_stall: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(30),
        }
    }
}
