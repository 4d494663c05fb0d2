//! What can go wrong in an exchange: what happened, whose fault it is, and whether the request may be sent
//! again.

use std::fmt;

use thruway_http1 as http1;

/// Whose fault a failure is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Whoever wanted the request to be sent: a gateway's client, or the caller.
    Client,
    /// The server that the request was sent to.
    Upstream,
    /// This machine: descriptors, ports, permissions.
    Local,
}

/// Whether the same request may be sent once more: see [`Retry::allows`]. Whether its content can be, the
/// caller knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Retry {
    /// Not at all.
    Never,
    /// If it is idempotent; and if the connection had been used before, at once and to the same server. That
    /// is how a connection ends that its server closed for being idle: see [`Retry::blames_nobody`].
    IfConnectionReused,
    /// If it is idempotent: the server may have acted on it (RFC 9110 §9.2.2).
    IfIdempotent,
    /// In any case: no octet of it has left.
    Always,
}

impl Retry {
    /// Whether a request that `is_idempotent`, or not, may be sent again. One that is not, and may have been
    /// read, may not (RFC 9112 §9.3.1).
    pub const fn allows(self, is_idempotent: bool) -> bool {
        match self {
            Self::Never => false,
            Self::IfConnectionReused | Self::IfIdempotent => is_idempotent,
            Self::Always => true,
        }
    }

    /// Whether a failure on a connection that `is_reused`, or not, says nothing against the server: it may
    /// close a connection that waits, at any time.
    pub const fn blames_nobody(self, is_reused: bool) -> bool {
        is_reused && matches!(self, Self::IfConnectionReused | Self::Always)
    }
}

/// Why an exchange failed. Its connection cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The connection ended before any octet of the request could be written.
    ClosedBeforeRequest,
    /// The connection ended after the request had been written, in part at least, and before any octet of a
    /// response.
    ClosedBeforeResponse,
    /// The connection ended before the content of the response did (RFC 9112 §8).
    ContentIncomplete,
    /// The content of the response breaks a rule, or a limit.
    ContentMalformed(http1::Error),
    /// Nothing of the content came for as long as [`Timeouts::content_idle`](crate::Timeouts::content_idle)
    /// allows.
    ContentTimedOut,
    /// The connection ended in the head of the response, or after an interim response.
    HeadIncomplete,
    /// The head of the response breaks a rule, or a limit.
    HeadMalformed(http1::Error),
    /// No final response came within [`Timeouts::head`](crate::Timeouts::head).
    HeadTimedOut,
    /// More content was to be sent than the head of the request had announced.
    RequestContentTooLong,
    /// Less content was to be sent than the head of the request had announced.
    RequestContentTooShort,
    /// The request cannot be said in HTTP/2: it names no host, or one that is none there, or asks for a
    /// WebSocket without a key.
    RequestUnspeakable,
    /// The upstream has refused the stream, or left without having looked at it (RFC 9113 §8.7).
    StreamRefused,
    /// The upstream has ended the stream instead of answering.
    StreamReset,
    /// The exchange took longer than [`Timeouts::total`](crate::Timeouts::total).
    TimedOut,
    /// Nothing of the request was taken for as long as
    /// [`Timeouts::write_stall`](crate::Timeouts::write_stall) allows.
    WriteTimedOut,
}

impl Error {
    /// Whose fault it is.
    pub const fn side(self) -> Side {
        match self {
            Self::RequestContentTooLong | Self::RequestContentTooShort | Self::RequestUnspeakable => {
                Side::Client
            }
            _ => Side::Upstream,
        }
    }

    /// Whether the request may be sent again. Once the final response has begun it may not: somebody has been
    /// told.
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
            | Self::RequestUnspeakable
            | Self::TimedOut => Retry::Never,
        }
    }

    /// Whether a deadline has passed: what a gateway answers with 504, where others are 502.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::ContentTimedOut | Self::HeadTimedOut | Self::TimedOut | Self::WriteTimedOut)
    }

    const fn message(self) -> &'static str {
        match self {
            Self::ClosedBeforeRequest => "the connection ended before the request was sent",
            Self::ClosedBeforeResponse => "the connection ended without a response",
            Self::ContentIncomplete => "the connection ended before the content of the response did",
            Self::ContentMalformed(_) => "the content of the response is malformed",
            Self::ContentTimedOut => "the content of the response arrives too slowly",
            Self::HeadIncomplete => "the connection ended before the head of the response did",
            Self::HeadMalformed(_) => "the head of the response is malformed",
            Self::HeadTimedOut => "no response came in time",
            Self::RequestContentTooLong => "the request has more content than was announced",
            Self::RequestContentTooShort => "the request has less content than was announced",
            Self::RequestUnspeakable => "the request cannot be said in HTTP/2",
            Self::StreamRefused => "the upstream has refused the stream",
            Self::StreamReset => "the upstream has ended the stream",
            Self::TimedOut => "the exchange took too long",
            Self::WriteTimedOut => "the request is not taken in time",
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
