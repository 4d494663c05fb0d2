//! Config of health checks.

use std::time::Duration;

use crate::upstream::health::status_range::StatusRange;

/// How servers are asked how they are, and what is made of it. Until the first answer they are up; that one
/// decides at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckConfig {
    /// What is asked.
    pub kind: CheckKind,
    /// From one time to the next, a tenth more or less, so that servers and gateways are not all asked at
    /// once. Default 5 s.
    pub interval: Duration,
    /// For an answer, connecting included. Default 2 s.
    pub timeout: Duration,
    /// So many good answers in a row bring a server back. Default 2.
    pub rise: u32,
    /// So many bad ones take it out. Default 3.
    pub fall: u32,
}

/// What servers are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckKind {
    /// `GET` of a path.
    Http {
        /// The path, with a query if need be.
        path: String,
        /// What `Host` says; without it, the server's address.
        host: Option<String>,
        /// Statuses that are good. Default 200 to 399.
        statuses: Vec<StatusRange>,
        /// Text that must be in the first 64 KiB of the content. Default none.
        content: Option<String>,
    },
    /// Whether a connection is accepted.
    Tcp,
}

impl CheckConfig {
    /// What `kind` asks, as often as usual.
    pub const fn new(kind: CheckKind) -> Self {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(2));
        Self { kind, interval, timeout, rise: 2, fall: 3 }
    }
}

impl CheckKind {
    /// The statuses that are good if nothing else is said.
    pub const STATUSES: StatusRange = StatusRange::new(200, 399);

    /// `GET` of `path`, where 200 to 399 are good.
    pub fn http(path: impl Into<String>) -> Self {
        Self::Http { path: path.into(), host: None, statuses: vec![Self::STATUSES], content: None }
    }
}
