//! Ways in which a request can fail. Each kind has its own counter.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_client::ConnectError;
use thruway_net::tls::TlsFailure;

/// Defines the enum: one row for each kind with its name and its description.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $words:literal)*) => {
        /// Reason why a request has no response or an unexpected one.
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
    /// No route leads to the address.
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
    /// The server does not support HTTP/2: it did not select it in the TLS handshake, or did not start with
    /// HTTP/2.
    NotHttp2 "no HTTP/2"
    /// The server reset the stream of the request. This kind and the next two occur only with HTTP/2.
    StreamReset "stream reset"
    /// The server refused the stream of the request (`REFUSED_STREAM`).
    StreamRefused "stream refused"
    /// The server announced the end of the connection (`GOAWAY`), or accepts no request on a new one.
    GoneAway "server unreachable"
    /// The response violates the HTTP specification.
    Malformed "malformed answer"
    /// The server sent bytes after a complete response that belong to no response: a body longer than
    /// announced, or a response without a request. The preceding response is counted too.
    Surplus "bytes after a response"
    /// The response was not complete within the request timeout.
    TimedOut "timed out"
    /// The request was pipelined behind a request that failed, and the connection was closed because of that
    /// failure.
    Abandoned "abandoned after a failed request"
    /// The response is complete, but has an unexpected status.
    WrongStatus "wrong status"
    /// The response is complete, but its body has an unexpected length.
    WrongLength "wrong length"
    /// The response is complete, but its body has an unexpected digest.
    WrongDigest "wrong content"
    /// The `id` of the response belongs to another request. This kind and the next three occur only with MCP
    /// messages.
    WrongId "wrong id"
    /// The response is complete, but contains no JSON-RPC response.
    NotAResponse "no JSON-RPC response"
    /// The response is a JSON-RPC error.
    RpcError "JSON-RPC error"
    /// The tool returned a result with `isError`.
    ToolError "tool error"
    /// The request was sent, and got no response until the load had ended and the time for the last responses
    /// was over.
    Unanswered "unanswered at the end"
    /// The request was scheduled but never sent, because all connections were busy. Open loop only.
    Unsent "never sent"
}

impl FailureKind {
    /// Returns `true` if the time until the failure counts as a response time. The true response time would
    /// be longer. Without these times, a server that answers nothing would look fast.
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
                Self::Abandoned | Self::ConnectTimedOut | Self::DescriptorsExhausted | Self::PortsExhausted
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

/// A failed request: the kind of the failure, and details of this case.
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
            // `Debug` writes the name of the code as in RFC 9113 §7.
            Self::Reason(reason) => write!(f, "{reason:?}"),
            Self::Status(status) => status.fmt(f),
            Self::Length(bytes) => write!(f, "{bytes} bytes"),
            Self::Code(code) => code.fmt(f),
        }
    }
}
