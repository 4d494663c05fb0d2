//! Kinds of failures of requests. The report counts each kind separately.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_client::ConnectError;
use thruway_net::tls::TlsFailure;

/// Defines [`FailureKind`]. Each row contains the name and the description of one kind.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $words:literal)*) => {
        /// Reason why a request got no response or an unexpected response.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum FailureKind {
            $($(#[$doc])* $name,)*
        }

        impl FailureKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the description of the kind for the report.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

kinds! {
    /// The connection was refused: no server listens on the address.
    Refused "connection refused"
    /// The network has no route to the address.
    Unreachable "unreachable"
    /// The connection could not be opened within the request timeout.
    ConnectTimedOut "no connection in time"
    /// This process has reached its limit of open file descriptors.
    DescriptorsExhausted "no descriptors left"
    /// This machine has no free local port for another connection.
    PortsExhausted "no local port left"
    /// The TCP connection was opened, but the TLS handshake failed.
    HandshakeFailed "TLS handshake failed"
    /// The connection could not be opened for another reason.
    ConnectFailed "cannot connect"
    /// The server closed the connection before it sent the first byte of a response.
    Closed "closed without an answer"
    /// The connection ended in the middle of a response: in its head or in its body.
    Incomplete "ended within an answer"
    /// The server reset the connection.
    Reset "connection reset"
    /// The server does not support HTTP/2: it did not select HTTP/2 in the TLS handshake, or its first
    /// bytes were not HTTP/2.
    NotHttp2 "no HTTP/2"
    /// The server reset the HTTP/2 stream of the request.
    StreamReset "stream reset"
    /// The server refused the HTTP/2 stream of the request (`REFUSED_STREAM`).
    StreamRefused "stream refused"
    /// The server announced the end of the HTTP/2 connection (`GOAWAY`), or accepted no request on a new
    /// connection.
    GoneAway "server unreachable"
    /// The response violates the HTTP specification.
    Malformed "malformed answer"
    /// After a complete response, the server sent bytes that belong to no response. For example, the body
    /// was longer than announced, or the server sent a response without a request. The complete response is
    /// counted too.
    Surplus "bytes after a response"
    /// The response was not complete within the request timeout.
    TimedOut "timed out"
    /// An earlier request on the same connection failed, so the connection was closed before this request was
    /// complete.
    Abandoned "abandoned after a failed request"
    /// The response is complete, but has an unexpected status.
    WrongStatus "wrong status"
    /// The response is complete, but its body has an unexpected length.
    WrongLength "wrong length"
    /// The response is complete, but its body has an unexpected digest.
    WrongDigest "wrong content"
    /// The response is complete, but a step of a scenario found no value to extract.
    NotExtracted "no value to extract"
    /// The value of a variable makes the request of a step invalid, so the request was not sent.
    InvalidValue "invalid value of a variable"
    /// The `id` of the MCP response belongs to another request.
    WrongId "wrong id"
    /// The response is complete, but does not contain the expected JSON-RPC response.
    NotAResponse "no JSON-RPC response"
    /// The response is a JSON-RPC error.
    RpcError "JSON-RPC error"
    /// The tool returned a result with `isError`.
    ToolError "tool error"
    /// The request was sent, but got no response until the end of the load. The end of the load includes
    /// the time to wait for the last responses.
    Unanswered "unanswered at the end"
    /// The request was scheduled but never sent, because all connections were busy. Occurs only in an open
    /// loop.
    Unsent "never sent"
}

impl FailureKind {
    /// Returns `true` if the time until the failure counts as a response time. The true response time would
    /// be longer. Without these times, a server that never answers would look fast.
    pub const fn counts_as_waited(self) -> bool {
        matches!(self, Self::TimedOut | Self::Unanswered | Self::Unsent)
    }
}

impl FailureKind {
    /// Returns `true` if the server caused the failure. A timeout, or a resource that ran out on the load
    /// generator's machine, is no failure of the server.
    pub const fn is_of_server(self) -> bool {
        !self.counts_as_waited()
            && !matches!(
                self,
                Self::Abandoned
                    | Self::ConnectTimedOut
                    | Self::DescriptorsExhausted
                    | Self::PortsExhausted
                    | Self::InvalidValue
            )
    }
}

impl From<ConnectError> for FailureKind {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::DescriptorsExhausted => Self::DescriptorsExhausted,
            ConnectError::LocalAddressUnavailable => Self::PortsExhausted,
            ConnectError::Refused => Self::Refused,
            ConnectError::TimedOut | ConnectError::Tls(TlsFailure::TimedOut) => Self::ConnectTimedOut,
            ConnectError::Tls(_) => Self::HandshakeFailed,
            ConnectError::Unreachable => Self::Unreachable,
            _ => Self::ConnectFailed,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A failed request: the kind of its failure, and the details.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) detail: Detail,
}

/// Details that differ between failures of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    None,
    Connect(ConnectError),
    Rule(thruway_http1::Error),
    /// An HTTP/2 error code.
    Reason(h2::Reason),
    Status(u16),
    Length(u64),
    Code(i64),
}

impl Failure {
    pub(crate) const fn of(kind: FailureKind) -> Self {
        Self { kind, detail: Detail::None }
    }

    /// Creates the failure for a JSON-RPC error with this code.
    pub(crate) const fn code(code: i64) -> Self {
        Self { kind: FailureKind::RpcError, detail: Detail::Code(code) }
    }

    /// Creates the failure for a response with this unexpected status.
    pub(crate) const fn status(status: u16) -> Self {
        Self { kind: FailureKind::WrongStatus, detail: Detail::Status(status) }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self { kind: error.into(), detail: Detail::Connect(error) }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Connect(error) => error.fmt(f),
            Self::Rule(rule) => rule.fmt(f),
            // `Debug` writes the name of the error code from RFC 9113 §7.
            Self::Reason(reason) => write!(f, "{reason:?}"),
            Self::Status(status) => status.fmt(f),
            Self::Length(bytes) => write!(f, "{bytes} bytes"),
            Self::Code(code) => code.fmt(f),
        }
    }
}
