//! Limits and timeouts of connections to upstream servers.

use std::time::Duration;

use thruway_http1::Limits;

/// The limits and timeouts of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Limits on responses. Only these fields apply: `header_section_bytes` (default 32 KiB),
    /// `field_lines` (128), `interim_responses` (16), `chunk_extension_bytes` (4 KiB),
    /// `trailer_section_bytes` (8 KiB), and `content_bytes`. By default, `content_bytes` sets no limit,
    /// because a connection does not store the body. Code that collects a body has a separate limit.
    pub limits: Limits,
    /// The timeouts of an exchange. An exchange can [replace these timeouts](crate::Exchange::set_timeouts).
    pub timeouts: Timeouts,
}

/// The timeouts of an exchange with its upstream server. While the server waits for the client, only the
/// timeout `total` runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Maximum time from the end of the request, or from the last interim response, to the end of the final
    /// response's head. The default is 60 s. [`Duration::MAX`] disables the timeout.
    pub head: Duration,
    /// Maximum time between two bytes of the response body. The default is 60 s.
    pub content_idle: Duration,
    /// Maximum time during which the server accepts no byte of the request. This timeout applies until
    /// the final response starts. The default is 30 s.
    pub write_stall: Duration,
    /// Maximum time to wait for `100 (Continue)`, if the request asks for this response. After this time,
    /// the client sends the body anyway (RFC 9110 §10.1.1). The default is 1 s.
    pub expect_continue: Duration,
    /// Maximum time from the first byte of the request to the last byte of the response. The default is
    /// `None`, which means no limit.
    pub total: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits { content_bytes: u64::MAX, ..Limits::default() },
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_mins(1),
            content_idle: Duration::from_mins(1),
            write_stall: Duration::from_secs(30),
            expect_continue: Duration::from_secs(1),
            total: None,
        }
    }
}
