//! Health of the store, for the status and metrics.

use std::time::Duration;

/// State of the connection to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// The last operation or check has succeeded.
    Connected,
    /// The first connection is not complete yet.
    Connecting,
    /// The connection is lost. The store tries to connect again.
    Disconnected,
}

impl StoreState {
    /// Returns the name for the status and for metrics, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Connecting => "connecting",
            Self::Disconnected => "disconnected",
        }
    }
}

/// Health of the store.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreHealth {
    /// `memory`, `redis`, `sentinel` or `cluster`.
    pub kind: &'static str,
    /// Host and port of the store without credentials. Empty for a store in memory.
    pub address: String,
    /// State of the connection.
    pub state: StoreState,
    /// Smoothed latency of operations. `None` for a store in memory, and before the first operation.
    pub latency: Option<Duration>,
    /// Number of connections after the first one.
    pub reconnects: u64,
    /// Reason of the last failure, without credentials.
    pub last_error: Option<String>,
    /// Numbers of operations since the start.
    pub operations: OperationCounts,
}

/// Numbers of operations since the start of the store. All are zero for a store in memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OperationCounts {
    /// Operations with a result.
    pub succeeded: u64,
    /// Operations that the store rejected.
    pub rejected: u64,
    /// Operations without a response before the timeout.
    pub timed_out: u64,
    /// Operations that were not sent, because there was no connection or too many operations were waiting.
    pub not_sent: u64,
    /// Sum of the latencies of successful operations.
    pub latency_sum: Duration,
}
