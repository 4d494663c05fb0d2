//! Limits and timeouts of a server.

use std::time::Duration;

use thruway_http1::Limits;

use crate::http2::Http2Limits;
use crate::trusted::TrustedProxies;

/// Limits and timeouts of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Limits for one message.
    pub limits: Limits,
    /// Maximum number of requests of one connection that are in progress at the same time. Default 64.
    /// Further requests stay unread. Only requests with safe methods run at the same time (RFC 9112 §9.3.2).
    pub pipelined_requests: usize,
    /// Maximum number of response bytes that wait on one connection. Beyond it, the connection handles no
    /// further request and fetches no further content. Default 64 KiB. Smaller values cost system calls,
    /// larger ones memory for clients that do not read.
    pub output_bytes: usize,
    /// Maximum number of request content bytes that are read ahead of the handler. Default 64 KiB.
    pub content_window_bytes: usize,
    /// Maximum number of unread request content bytes that are discarded so that the connection can be
    /// reused. Default 256 KiB; beyond it, the connection closes.
    pub discard_bytes: u64,
    /// Limits for HTTP/2 connections.
    pub http2: Http2Limits,
    /// Proxies with trusted forwarding headers. Default: none, so the client is the other end of the
    /// connection.
    pub trusted_proxies: TrustedProxies,
    /// Timeouts.
    pub timeouts: Timeouts,
}

/// Timeouts of a connection, exact to a few hundred milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Maximum time from the first byte of a request to the end of its header section; then 408. Default 10
    /// s.
    pub header_section: Duration,
    /// Maximum time that a client may fall behind with a request body; then it gets 408. A body of which
    /// nothing arrives for this time has failed, however fast it was before. The time in which the handler
    /// does not read does not count. Default 20 s.
    pub content: Duration,
    /// Minimum rate of a request body, in bytes per second. A slower body falls behind, and fails when it is
    /// behind by [`content`](Self::content). A faster one catches up, but cannot save time for a later pause.
    /// Default 500.
    pub content_rate_min: u64,
    /// Maximum time without a request on an open connection. Then the connection is closed. Default 60 s.
    pub idle: Duration,
    /// Maximum time without progress on a response for a client that has closed its sending side. Most such
    /// clients have gone, so the request is canceled. Default 1 s. Longer values serve clients that only
    /// half-close, such as `nc -N`; shorter ones save work of upstream servers.
    pub half_closed: Duration,
    /// Maximum time without write progress to a client that neither reads nor sends a request body. Then the
    /// connection is cut off. Default 30 s.
    pub write_stall: Duration,
    /// Time for the client to read the last response and to close. Does not apply if the client has asked to
    /// close and sends nothing more. Default 2 s.
    pub linger: Duration,
    /// Maximum time for connections to end during a drain. Then they are cut off. Default 30 s.
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
