//! Responses of a collector, failures of requests to it, and the time after which it permits a retry.

use std::fmt;
use std::time::{Duration, SystemTime};

use thruway_client::{ClientError, ConnectError, ConnectFailures, Error};
use thruway_net::tls::TlsFailure;
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

/// Reason why no response arrived.
pub(super) enum CollectorError {
    Client(ClientError),
    NameNotResolved(std::io::Error),
    NotConnected(ConnectFailures),
    NotSecured(ConnectError),
    Exchange(Error),
}

/// Returns the delay in a value of `Retry-After` (RFC 9110 §10.2.3): a number of seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(value).ok().map(|date| date.duration_since(now).unwrap_or_default())
}

impl fmt::Display for CollectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::NameNotResolved(error) => error.fmt(f),
            Self::NotConnected(error) => error.fmt(f),
            Self::NotSecured(error) => error.fmt(f),
            Self::Exchange(error) => error.fmt(f),
        }
    }
}

impl From<ClientError> for CollectorError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<Error> for CollectorError {
    fn from(error: Error) -> Self {
        Self::Exchange(error)
    }
}

impl From<TlsFailure> for CollectorError {
    fn from(failure: TlsFailure) -> Self {
        Self::NotSecured(ConnectError::Tls(failure))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let after = |value| retry_after(value, now);
        assert_eq!(after("0"), Some(Duration::ZERO));
        assert_eq!(after("120"), Some(Duration::from_mins(2)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:27 GMT"), Some(Duration::ZERO));
        assert_eq!(["", "-1", "1.5", "soon"].map(after), [None; 4]);
    }
}
