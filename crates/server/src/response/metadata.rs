//! Metadata that a handler adds to its response for access logs and metrics.

use std::sync::Arc;
use std::time::Duration;

/// Data about a forwarded request. A gateway adds this data to its response with
/// [`set_forwarded`](crate::Response::set_forwarded).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The server that received the request. After retries, the server of the last attempt.
    pub server: Option<Arc<str>>,
    /// Number of retries.
    pub retries: u32,
    /// Time for which the request has waited in queues.
    pub queue: Duration,
    /// Time to open the last connection to a server. `None` if a connection was reused or no connection could
    /// be opened.
    pub connect: Option<Duration>,
    /// Time from the opening or reuse of the last connection to the arrival of the response head. `None`
    /// without a response.
    pub head: Option<Duration>,
    /// Reason why no server has responded, if there was no response.
    pub failure: Option<&'static str>,
    /// Id of the request, if the gateway sends an id to the client or the upstream server.
    pub request_id: Option<Box<str>>,
}

/// The policy that rejected a request. The policy adds this data to its response with
/// [`set_refused`](crate::Response::set_refused).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// Reason for the rejection, in one word.
    pub reason: &'static str,
}

/// Metadata about a request that its handler adds for the record.
#[derive(Debug)]
pub(crate) enum ResponseMetadata {
    Forwarded(Box<Forwarded>),
    Refused(Box<Refused>),
    /// Name of the user that a layer has authenticated, and the metadata from the inner handler.
    User(Box<(Box<str>, Option<ResponseMetadata>)>),
    /// Name of the route, and the metadata from the handler of the route.
    Route(Box<(Arc<str>, Option<ResponseMetadata>)>),
    /// The access log leaves out the request. Contains the metadata from the handler of the route.
    Unlogged(Option<Box<ResponseMetadata>>),
}

impl ResponseMetadata {
    pub(crate) fn forwarded(&self) -> Option<&Forwarded> {
        match self {
            Self::Forwarded(forwarded) => Some(forwarded),
            Self::Refused(_) => None,
            Self::User(both) => both.1.as_ref()?.forwarded(),
            Self::Route(both) => both.1.as_ref()?.forwarded(),
            Self::Unlogged(inner) => inner.as_ref()?.forwarded(),
        }
    }

    pub(crate) fn refused(&self) -> Option<&Refused> {
        match self {
            Self::Forwarded(_) => None,
            Self::Refused(refused) => Some(refused),
            Self::User(both) => both.1.as_ref()?.refused(),
            Self::Route(both) => both.1.as_ref()?.refused(),
            Self::Unlogged(inner) => inner.as_ref()?.refused(),
        }
    }

    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::Forwarded(_) | Self::Refused(_) => None,
            Self::User(both) => Some(&both.0),
            Self::Route(both) => both.1.as_ref()?.user(),
            Self::Unlogged(inner) => inner.as_ref()?.user(),
        }
    }

    /// Returns `true` if the access log leaves out the request. Only the outermost handler of a route
    /// decides.
    pub(crate) const fn is_unlogged(&self) -> bool {
        matches!(self, Self::Unlogged(_))
    }

    pub(crate) fn route(&self) -> Option<&str> {
        match self {
            Self::Forwarded(_) | Self::Refused(_) => None,
            Self::User(both) => both.1.as_ref()?.route(),
            Self::Route(both) => Some(&both.0),
            Self::Unlogged(inner) => inner.as_ref()?.route(),
        }
    }
}

impl Forwarded {
    /// Creates the metadata of a request to `upstream`, before any attempt.
    pub const fn to(upstream: Arc<str>) -> Self {
        Self {
            upstream,
            server: None,
            retries: 0,
            queue: Duration::ZERO,
            connect: None,
            head: None,
            failure: None,
            request_id: None,
        }
    }
}
