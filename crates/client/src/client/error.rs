//! The errors of requests.

use std::fmt;
use std::io;

use thruway_http1 as http1;
use thruway_message::InvalidFieldLine;
use thruway_net::tls::TlsFailure;

use crate::url::InvalidUrl;
use crate::{ConnectFailures, Error, Side};

/// The reason that a response is missing or incomplete.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// No address of the server accepted a connection.
    Connect(ConnectFailures),
    /// The body is larger than the caller allows.
    ContentTooLarge,
    /// An event is larger than the caller allows.
    EventTooLarge,
    /// A line of an event stream begins with `{`: see
    /// [`Events::refuse_json_lines`](crate::Events::refuse_json_lines).
    EventsInvalid,
    /// The exchange failed after the connection was established.
    Exchange(Error),
    /// The request has an invalid field line.
    FieldInvalid(InvalidFieldLine),
    /// The name lookup failed.
    NameNotLookedUp {
        /// The host name.
        host: Box<str>,
        /// The error of the resolver.
        reason: Box<str>,
    },
    /// The host name does not exist, or the lookup took too long.
    NameNotResolved {
        /// The host name.
        host: Box<str>,
        /// The kind of the resolver's error.
        kind: io::ErrorKind,
    },
    /// The method or the target of the request is invalid.
    RequestInvalid(http1::Error),
    /// The scheme is neither `http` nor `https`.
    SchemeNotSupported,
    /// The connection was established, but the TLS handshake failed.
    Tls(TlsFailure),
    /// The text is not a URL with a scheme and a host.
    UrlInvalid,
}

impl ClientError {
    /// Returns the side that caused the error.
    pub fn side(&self) -> Side {
        match self {
            Self::Connect(failures) => failures.side(),
            Self::Exchange(error) => error.side(),
            Self::ContentTooLarge
            | Self::EventTooLarge
            | Self::EventsInvalid
            | Self::NameNotResolved { .. }
            | Self::Tls(_) => Side::Upstream,
            Self::NameNotLookedUp { .. } => Side::Local,
            Self::FieldInvalid(_) | Self::RequestInvalid(_) | Self::SchemeNotSupported | Self::UrlInvalid => {
                Side::Client
            }
        }
    }
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        Self::Exchange(error)
    }
}

impl From<InvalidUrl> for ClientError {
    fn from(error: InvalidUrl) -> Self {
        match error {
            InvalidUrl::SchemeNotSupported => Self::SchemeNotSupported,
            InvalidUrl::TargetInvalid => Self::RequestInvalid(http1::Error::RequestTargetInvalid),
            InvalidUrl::FragmentPresent | InvalidUrl::HostInvalid | InvalidUrl::SchemeMissing => {
                Self::UrlInvalid
            }
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(failures) => failures.fmt(f),
            Self::ContentTooLarge => f.write_str("the response body is larger than allowed"),
            Self::EventTooLarge => f.write_str("an event is larger than allowed"),
            Self::EventsInvalid => f.write_str("the event stream contains JSON lines instead of fields"),
            Self::Exchange(error) => error.fmt(f),
            Self::FieldInvalid(error) => error.fmt(f),
            Self::NameNotResolved { host, kind: io::ErrorKind::TimedOut } => {
                write!(f, "looking up the host `{host}` took too long")
            }
            Self::NameNotLookedUp { host, reason } => {
                write!(f, "looking up the host `{host}` failed: {reason}")
            }
            Self::NameNotResolved { host, .. } => {
                write!(f, "the host `{host}` does not exist or has no address")
            }
            Self::RequestInvalid(rule) => rule.fmt(f),
            Self::SchemeNotSupported => {
                f.write_str("only URLs that begin with `http://` or `https://` are supported")
            }
            Self::Tls(failure) => failure.fmt(f),
            Self::UrlInvalid => f.write_str("the URL does not begin with `http://` or `https://` and a host"),
        }
    }
}

impl std::error::Error for ClientError {}
