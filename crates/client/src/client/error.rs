//! Why a request has no response.

use std::fmt;
use std::io;

use thruway_http1 as http1;
use thruway_message::InvalidFieldLine;
use thruway_net::tls::TlsFailure;

use crate::url::InvalidUrl;
use crate::{ConnectFailures, Error, Side};

/// Why there is no response, or no more of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// No address accepts connections.
    Connect(ConnectFailures),
    /// The content is larger than the caller allows.
    ContentTooLarge,
    /// An event is larger than allowed.
    EventTooLarge,
    /// A line of an event stream begins with `{`: see
    /// [`Events::refuse_json_lines`](crate::Events::refuse_json_lines).
    EventsInvalid,
    /// The exchange failed.
    Exchange(Error),
    /// The request has a field line that cannot be sent.
    FieldInvalid(InvalidFieldLine),
    /// Nobody could say where the server is.
    NameNotLookedUp {
        /// Its name.
        host: Box<str>,
        /// What the resolver says.
        reason: Box<str>,
    },
    /// The name of the server is not known, or has not been found out in time.
    NameNotResolved {
        /// The name.
        host: Box<str>,
        /// What the resolver says.
        kind: io::ErrorKind,
    },
    /// Method or target cannot be sent.
    RequestInvalid(http1::Error),
    /// Only `http` and `https` are.
    SchemeNotSupported,
    /// There is a connection, but none in TLS.
    Tls(TlsFailure),
    /// It is no URL with a scheme and a host.
    UrlInvalid,
}

impl ClientError {
    /// Whose fault it is.
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
            Self::ContentTooLarge => f.write_str("the content is larger than allowed"),
            Self::EventTooLarge => f.write_str("an event is larger than allowed"),
            Self::EventsInvalid => f.write_str("the event stream has JSON lines in the place of fields"),
            Self::Exchange(error) => error.fmt(f),
            Self::FieldInvalid(error) => error.fmt(f),
            Self::NameNotResolved { host, kind: io::ErrorKind::TimedOut } => {
                write!(f, "it was not found out in time where the host `{host}` is")
            }
            Self::NameNotLookedUp { host, reason } => {
                write!(f, "the host `{host}` could not be looked up: {reason}")
            }
            Self::NameNotResolved { host, .. } => write!(f, "the host `{host}` is not known"),
            Self::RequestInvalid(rule) => rule.fmt(f),
            Self::SchemeNotSupported => {
                f.write_str("only URLs that begin with `http://` or `https://` are supported")
            }
            Self::Tls(failure) => failure.fmt(f),
            Self::UrlInvalid => f.write_str("a URL begins with `http://` or `https://` and a host"),
        }
    }
}

impl std::error::Error for ClientError {}
