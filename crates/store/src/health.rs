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
    /// Median and 99th percentile of the latest operations. `None` without operations.
    pub latency_percentiles: Option<LatencyPercentiles>,
    /// Number of open connections for operations.
    pub connections: usize,
    /// Maximum number of connections for operations. Zero for a store in memory.
    pub connections_max: usize,
    /// Number of operations that wait for a response.
    pub waiting: usize,
    /// Number of connections after the first one.
    pub reconnects: u64,
    /// Reason of the last failure, without credentials.
    pub last_error: Option<String>,
    /// Numbers of operations since the start.
    pub operations: OperationCounts,
}

/// Percentiles of the latencies of the last successful operations, at most 1,024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyPercentiles {
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
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
    /// Numbers of successful operations in ranges of latencies. The upper bounds are [`Self::BOUNDS`]. The last range
    /// has no bound.
    pub latency_buckets: [u64; OperationCounts::BOUNDS.len() + 1],
}

impl OperationCounts {
    /// Upper bounds of the ranges of latencies.
    pub const BOUNDS: [Duration; 10] = [
        Duration::from_micros(100),
        Duration::from_micros(250),
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(50),
        Duration::from_millis(250),
        Duration::from_secs(1),
    ];
}
