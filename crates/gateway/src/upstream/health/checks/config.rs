//! Settings of health checks.

use std::time::Duration;

use crate::upstream::health::status_range::StatusRange;

/// Health checks. Before its first check, a server counts as up. The first result alone decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckConfig {
    /// Kind of the check.
    pub kind: CheckKind,
    /// Interval of the checks, plus or minus a tenth, so that gateways do not check all servers at the same
    /// time. Default 5 s.
    pub interval: Duration,
    /// Maximum time for a response, including the connection. Default 2 s.
    pub timeout: Duration,
    /// Number of consecutive good checks after which a server is up. Default 2.
    pub rise: u32,
    /// Number of consecutive failed checks after which a server is down. Default 3.
    pub fall: u32,
}

/// Kind of a health check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckKind {
    /// `GET` of a path.
    Http {
        /// The path, with an optional query.
        path: String,
        /// `Host` of the request. Default: the server's address.
        host: Option<String>,
        /// Status codes that count as healthy. Default 200 to 399.
        statuses: Vec<StatusRange>,
        /// Text that must be in the first 64 KiB of the body. Default none.
        content: Option<String>,
    },
    /// Check that the server accepts a connection.
    Tcp,
}

impl CheckConfig {
    /// Returns checks of this kind with the default interval.
    pub const fn new(kind: CheckKind) -> Self {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(2));
        Self { kind, interval, timeout, rise: 2, fall: 3 }
    }
}

impl CheckKind {
    /// The default statuses of a healthy server.
    pub const STATUSES: StatusRange = StatusRange::new(200, 399);

    /// Returns a check with `GET` of `path` that accepts the statuses 200 to 399.
    pub fn http(path: impl Into<String>) -> Self {
        Self::Http { path: path.into(), host: None, statuses: vec![Self::STATUSES], content: None }
    }
}
