//! Limits and timeouts of connections to upstreams.

use std::time::Duration;

use thruway_http1::Limits;

/// How much a connection takes on, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How large a response may be. What counts here: `header_section_bytes` (default 32 KiB), `field_lines`
    /// (128), `interim_responses` (16), `chunk_extension_bytes` (4 KiB), `trailer_section_bytes` (8 KiB), and
    /// `content_bytes`, which has no limit by default: content is not held, and whoever collects it has a
    /// limit of its own.
    pub limits: Limits,
    /// How long to wait for what. An exchange may have [others](crate::Exchange::set_timeouts).
    pub timeouts: Timeouts,
}

/// How long an exchange waits for its upstream. The time in which the upstream waits for us is not counted;
/// `total` counts all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the end of the request, or the interim response before, to the end of the final response's head.
    /// Default 60 s; [`Duration::MAX`] is for ever, and costs no timer.
    pub head: Duration,
    /// Without an octet of the response's content. Default 60 s.
    pub content_idle: Duration,
    /// Without an octet of the request being taken, until the final response begins. Default 30 s.
    pub write_stall: Duration,
    /// For `100 (Continue)`, if the request asks for it; then the content is sent all the same (RFC 9110
    /// §10.1.1). Default 1 s.
    pub expect_continue: Duration,
    /// From the first octet to the last. Default none.
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
