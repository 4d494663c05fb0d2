//! Reasons why a server could not be probed.

use std::fmt;
use std::io;

use thruway_client::{ConnectError, UpstreamAddr};
use thruway_http1 as http1;

use crate::requests::InvalidRequest;
use crate::worker::OpenError;

/// Reason why the probe of an MCP server failed.
#[derive(Debug)]
pub enum ProbeError {
    /// The server closed the connection, or ended, before it responded.
    Closed,
    /// The connection to this address could not be opened.
    Connect(UpstreamAddr, ConnectError),
    /// The response violates the HTTP specification.
    Malformed(http1::Error),
    /// The response contains no JSON-RPC response.
    NoResponse,
    /// The server returned a JSON-RPC error. This variant contains the error code and the first characters
    /// of the error message.
    Refused(i64, String),
    /// The request cannot be built from the options.
    Request(InvalidRequest),
    /// The server selected an unknown protocol revision.
    RevisionUnknown,
    /// The response has this unexpected status.
    Status(u16),
    /// A system call failed.
    System(io::Error),
    /// The server did not respond in time.
    TimedOut,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it ended before it responded"),
            Self::Connect(address, error) => write!(f, "cannot connect to `{address}`: {error}"),
            Self::Malformed(error) => write!(f, "its response is malformed: {error}"),
            Self::NoResponse => f.write_str("its response contains no JSON-RPC message"),
            Self::Refused(code, message) => {
                write!(f, "it returned an error: {} ({code})", message.escape_debug())
            }
            Self::Request(error) => error.fmt(f),
            Self::RevisionUnknown => f.write_str("it uses an unknown protocol revision"),
            Self::Status(status) => write!(f, "it returned status {status}"),
            Self::System(error) => write!(f, "a system call failed: {error}"),
            Self::TimedOut => f.write_str("it did not respond in time"),
        }
    }
}

impl std::error::Error for ProbeError {}

impl ProbeError {
    /// Returns the hint that `thruway bench` prints below the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Status(401 | 403) => "pass credentials with `-H 'Authorization: …'`",
            Self::Status(_) | Self::NoResponse | Self::Malformed(_) => {
                "check the URL of the MCP endpoint: its path is usually `/mcp`"
            }
            Self::Refused(..) | Self::RevisionUnknown => {
                "select a revision that the server supports with `--era`"
            }
            Self::Closed => "check that the command is an MCP server on standard input and output",
            Self::TimedOut => "increase `--timeout` if the server is slow",
            Self::Request(_) => "write a header as `Name: value`",
            Self::Connect(_, error) => {
                OpenError::from(*error).hint().unwrap_or("check that the server still runs")
            }
            Self::System(_) => "check that the server still runs",
        }
    }
}

impl From<io::Error> for ProbeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::System(error),
        }
    }
}

impl From<InvalidRequest> for ProbeError {
    fn from(error: InvalidRequest) -> Self {
        Self::Request(error)
    }
}

impl From<http1::Error> for ProbeError {
    fn from(error: http1::Error) -> Self {
        Self::Malformed(error)
    }
}
