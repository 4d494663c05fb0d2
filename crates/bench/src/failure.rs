//! Outcomes of a request other than the expected response, each with its own counter.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_client::ConnectError;
use thruway_net::tls::TlsFailure;

/// One row for each kind: its name and the words for people.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $words:literal)*) => {
        /// Why a request has no answer, or another than was expected.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum FailureKind {
            $($(#[$doc])* $name,)*
        }

        impl FailureKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The kind in words.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

kinds! {
    /// The address has no listener.
    Refused "connection refused"
    /// No way leads to the address.
    Unreachable "unreachable"
    /// No connection within the time for a request.
    ConnectTimedOut "no connection in time"
    /// This process has no descriptors left.
    DescriptorsExhausted "no descriptors left"
    /// This machine has no port left to connect from.
    PortsExhausted "no local port left"
    /// There is a connection, but none in TLS.
    HandshakeFailed "TLS handshake failed"
    /// Another reason why there is no connection.
    ConnectFailed "cannot connect"
    /// The connection ended before the first byte of a response.
    Closed "closed without an answer"
    /// The connection ended within an answer: a short head or short content.
    Incomplete "ended within an answer"
    /// The server broke the connection off.
    Reset "connection reset"
    /// The server does not speak HTTP/2: it did not agree to it, or begins with something else.
    NotHttp2 "no HTTP/2"
    /// The server has reset the stream of the request. HTTP/2 only, as the next two.
    StreamReset "stream reset"
    /// The server has refused the stream of the request (`REFUSED_STREAM`).
    StreamRefused "stream refused"
    /// The server has given up the connection (`GOAWAY`), or takes no request on one.
    GoneAway "server unreachable"
    /// The response breaks a rule of HTTP.
    Malformed "malformed answer"
    /// Bytes after a complete response that belong to no response: more content than announced, or a response
    /// without a request. The response before them is counted too.
    Surplus "bytes after a response"
    /// No complete answer within the time for a request.
    TimedOut "timed out"
    /// Sent behind a request that failed on the same connection, which was given up for it.
    Abandoned "abandoned after a failed request"
    /// Complete, with another status than was expected.
    WrongStatus "wrong status"
    /// Complete, with content of another length than was expected.
    WrongLength "wrong length"
    /// Complete, with other content than was expected.
    WrongDigest "wrong content"
    /// An answer to another request, by its id. Messages of MCP only, as the next three.
    WrongId "wrong id"
    /// Complete, and without a JSON-RPC response in it.
    NotAResponse "no JSON-RPC response"
    /// A JSON-RPC error.
    RpcError "JSON-RPC error"
    /// The result of a tool that says `isError`.
    ToolError "tool error"
    /// Sent, and not answered when the load had ended and the time for the last answers was over.
    Unanswered "unanswered at the end"
    /// Meant to be sent, and never sent, because all connections were waiting. Open loop only.
    Unsent "never sent"
}

impl FailureKind {
    /// Returns `true` if the time until the failure counts as a response time, because the true time would be
    /// longer. Without these times, a server that answers nothing would look fast.
    pub const fn counts_as_waited(self) -> bool {
        matches!(self, Self::TimedOut | Self::Unanswered | Self::Unsent)
    }
}

impl FailureKind {
    /// Returns `true` if the server has failed: neither the time was over, nor was something used up on the
    /// machine of the load generator.
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

/// A request that failed: how, and what there is to say about the single case.
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
    /// An error code of HTTP/2.
    Reason(h2::Reason),
    Status(u16),
    Length(u64),
    Code(i64),
}

impl Failure {
    pub(crate) const fn of(kind: FailureKind) -> Self {
        Self { kind, detail: Detail::None }
    }

    /// A JSON-RPC error with this code.
    pub(crate) const fn code(code: i64) -> Self {
        Self { kind: FailureKind::RpcError, detail: Detail::Code(code) }
    }

    /// An answer with this status, which was not expected.
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
            // Its name, as RFC 9113 §7 has it.
            Self::Reason(reason) => write!(f, "{reason:?}"),
            Self::Status(status) => status.fmt(f),
            Self::Length(bytes) => write!(f, "{bytes} bytes"),
            Self::Code(code) => code.fmt(f),
        }
    }
}
