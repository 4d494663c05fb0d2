//! Settings of health checks.

use std::time::Duration;

use crate::upstream::health::status_range::StatusRange;

/// Settings of active health checks. A server counts as up until its first check has ended. After the first
/// check, the server is up or down at once, regardless of `rise` and `fall`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckConfig {
    /// Kind of the health checks.
    pub kind: CheckKind,
    /// Interval between health checks of a server. The gateway varies the interval randomly by up to a
    /// tenth, so that several gateways do not check a server at the same time. Default 5 s.
    pub interval: Duration,
    /// Maximum time of a health check, from connecting to the response. Default 2 s.
    pub timeout: Duration,
    /// Number of consecutive successful checks after which a server that was down counts as up. Default 2.
    pub rise: u32,
    /// Number of consecutive failed checks after which a server that was up counts as down. Default 3.
    pub fall: u32,
}

/// Kind of a health check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckKind {
    /// Sends a `GET` request for a path.
    Http {
        /// The path, with an optional query.
        path: String,
        /// Value of the `Host` header. Default: the server as written in the config.
        host: Option<String>,
        /// Status codes that count as healthy. Default 200 to 399.
        statuses: Vec<StatusRange>,
        /// Text that the first 64 KiB of the response body must contain. Default: no text.
        content: Option<String>,
    },
    /// Checks only that the server accepts a connection.
    Tcp,
}

impl CheckConfig {
    /// Returns settings for checks of this kind, with the default values.
    pub const fn new(kind: CheckKind) -> Self {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(2));
        Self { kind, interval, timeout, rise: 2, fall: 3 }
    }
}

impl CheckKind {
    /// The default status codes of a healthy server.
    pub const STATUSES: StatusRange = StatusRange::new(200, 399);

    /// Returns a check that sends `GET` for `path` and accepts the statuses 200 to 399.
    pub fn http(path: impl Into<String>) -> Self {
        Self::Http { path: path.into(), host: None, statuses: vec![Self::STATUSES], content: None }
    }
}
