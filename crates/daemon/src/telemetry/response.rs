//! The response of a collector to an export.

use std::fmt;

use thruway_telemetry::ExportOutcome;

/// A complete response.
pub(super) struct CollectorResponse {
    pub(super) outcome: ExportOutcome,
    pub(super) status: CollectorStatus,
}

/// The status in a response, which log lines show.
#[derive(Clone, Copy)]
pub(super) enum CollectorStatus {
    Http(u16),
    Grpc(u32),
    /// A response without a gRPC status, with its HTTP status.
    NotGrpc(u16),
}

impl fmt::Display for CollectorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Http(status @ (401 | 403)) => write!(f, "HTTP status {status}: check `telemetry.headers`"),
            Self::Http(status @ 404) => write!(f, "HTTP status {status}: check the path of `telemetry.otlp`"),
            Self::Http(status) => write!(f, "HTTP status {status}"),
            Self::Grpc(status @ (7 | 16)) => write!(f, "gRPC status {status}: check `telemetry.headers`"),
            Self::Grpc(status) => write!(f, "gRPC status {status}"),
            Self::NotGrpc(status) => {
                write!(f, "HTTP status {status} without a gRPC status: check that the server accepts gRPC")
            }
        }
    }
}
