//! The errors of an exchange: the cause, the responsible side, and the rule for retries.

use std::fmt;

use thruway_http1 as http1;

/// The side that caused a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The sender of the request: a gateway's client, or the caller of this crate.
    Client,
    /// The upstream server.
    Upstream,
    /// This machine. For example, this machine has no free file descriptors or ports, or denies
    /// permission.
    Local,
}

/// The rule for sending the same request again: see [`Retry::allows`]. The caller must also be able to
/// send the request body again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Retry {
    /// The request must not be sent again.
    Never,
    /// The request may be sent again if it is idempotent. If the connection was reused, the server has
    /// probably closed the connection while it was idle. In this case, retry at once and with the same
    /// server: see [`Retry::counts_against_no_server`].
    IfConnectionReused,
    /// The request may be sent again only if it is idempotent, because the server may have acted on the
    /// request (RFC 9110 §9.2.2).
    IfIdempotent,
    /// The request may always be sent again, because no byte of the request was sent.
    Always,
}

impl Retry {
    /// Returns `true` if the request may be sent again. A request that is not idempotent must not be sent
    /// again if the server may have read the request (RFC 9112 §9.3.1).
    pub const fn allows(self, is_idempotent: bool) -> bool {
        match self {
            Self::Never => false,
            Self::IfConnectionReused | Self::IfIdempotent => is_idempotent,
            Self::Always => true,
        }
    }

    /// Returns `true` if the failure is not the server's fault. The result can be `true` only for a reused
    /// connection, because a server may close an idle connection at any time.
    pub const fn counts_against_no_server(self, is_reused: bool) -> bool {
        is_reused && matches!(self, Self::IfConnectionReused | Self::Always)
    }
}

/// The reason that an exchange failed. After a failure, an HTTP/1.1 connection cannot be used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The connection ended before the first byte of the request was written.
    ClosedBeforeRequest,
    /// The connection ended before the first byte of a response. At least a part of the request had been
    /// written.
    ClosedBeforeResponse,
    /// The connection ended before the end of the response body (RFC 9112 §8).
    ContentIncomplete,
    /// The response body breaks a rule or exceeds a limit.
    ContentMalformed(http1::Error),
    /// No byte of the body arrived within [`Timeouts::content_idle`](crate::Timeouts::content_idle).
    ContentTimedOut,
    /// The connection ended in the middle of the response head, or after an interim response.
    HeadIncomplete,
    /// The response head breaks a rule or exceeds a limit.
    HeadMalformed(http1::Error),
    /// No final response arrived within [`Timeouts::head`](crate::Timeouts::head).
    HeadTimedOut,
    /// The request body is longer than the request head has announced.
    RequestContentTooLong,
    /// The request body is shorter than the request head has announced.
    RequestContentTooShort,
    /// HTTP/2 cannot express the request. For example, the request has no valid host, or asks for a
    /// WebSocket without a valid key.
    RequestNotSendable,
    /// The upstream server has refused the stream, or has closed the connection without processing the
    /// request (RFC 9113 §8.7).
    StreamRefused,
    /// The upstream server has reset the stream before the response head.
    StreamReset,
    /// The exchange took longer than [`Timeouts::total`](crate::Timeouts::total).
    TimedOut,
    /// The upstream server accepted no byte of the request within
    /// [`Timeouts::write_stall`](crate::Timeouts::write_stall).
    WriteTimedOut,
}

impl Error {
    /// Returns the side that caused the error.
    pub const fn side(self) -> Side {
        match self {
            Self::RequestContentTooLong | Self::RequestContentTooShort | Self::RequestNotSendable => {
                Side::Client
            }
            _ => Side::Upstream,
        }
    }

    /// Returns the rule for sending the request again. After the final response has started, the result
    /// is [`Retry::Never`], because the client may already have received a part of the response.
    pub const fn retry(self) -> Retry {
        match self {
            Self::ClosedBeforeRequest | Self::StreamRefused => Retry::Always,
            Self::ClosedBeforeResponse => Retry::IfConnectionReused,
            Self::HeadIncomplete
            | Self::HeadMalformed(_)
            | Self::HeadTimedOut
            | Self::StreamReset
            | Self::WriteTimedOut => Retry::IfIdempotent,
            Self::ContentIncomplete
            | Self::ContentMalformed(_)
            | Self::ContentTimedOut
            | Self::RequestContentTooLong
            | Self::RequestContentTooShort
            | Self::RequestNotSendable
            | Self::TimedOut => Retry::Never,
        }
    }

    /// Returns `true` if the error is a timeout. A gateway responds to a timeout with 504, and to other
    /// errors with 502.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::ContentTimedOut | Self::HeadTimedOut | Self::TimedOut | Self::WriteTimedOut)
    }

    const fn message(self) -> &'static str {
        match self {
            Self::ClosedBeforeRequest => "the connection ended before the request was sent",
            Self::ClosedBeforeResponse => "the connection ended without a response",
            Self::ContentIncomplete => "the connection ended before the end of the response body",
            Self::ContentMalformed(_) => "the response body is malformed",
            Self::ContentTimedOut => "the response body arrives too slowly",
            Self::HeadIncomplete => "the connection ended before the end of the response head",
            Self::HeadMalformed(_) => "the response head is malformed",
            Self::HeadTimedOut => "no response arrived in time",
            Self::RequestContentTooLong => "the request body is longer than announced",
            Self::RequestContentTooShort => "the request body is shorter than announced",
            Self::RequestNotSendable => "HTTP/2 cannot express the request",
            Self::StreamRefused => "the upstream server refused the stream",
            Self::StreamReset => "the upstream server reset the stream",
            Self::TimedOut => "the exchange took too long",
            Self::WriteTimedOut => "the upstream server did not accept the request in time",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())?;
        match self {
            Self::ContentMalformed(rule) | Self::HeadMalformed(rule) => write!(f, ": {rule}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
