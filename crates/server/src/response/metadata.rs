//! What a handler says about its response beside the response: for access logs and metrics.

use std::sync::Arc;
use std::time::Duration;

/// How a gateway has forwarded a request: a handler gives it to its response, with
/// [`set_forwarded`](crate::Response::set_forwarded).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// Which of its servers had the request last.
    pub server: Option<Arc<str>>,
    /// How many times it was sent again.
    pub retries: u32,
    /// How long it waited for servers.
    pub queue: Duration,
    /// How long the last connection took; `None` if one was used again, or none could be made.
    pub connect: Option<Duration>,
    /// How long the last server took from then on until the head of its response was there.
    pub head: Option<Duration>,
    /// Why there is no response of a server.
    pub failure: Option<&'static str>,
    /// What it is called in logs here and there, if somebody was told.
    pub request_id: Option<Box<str>>,
}

/// What has refused a request: a handler gives it to its response, with
/// [`set_refused`](crate::Response::set_refused).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The name of what refused it.
    pub policy: Arc<str>,
    /// Why, in a word.
    pub reason: &'static str,
}

/// What a handler tells of a request, for the record of it.
#[derive(Debug)]
pub(crate) enum Told {
    Forwarded(Box<Forwarded>),
    Refused(Box<Refused>),
    /// A layer has authenticated a user. The handler behind it may have set more.
    User(Box<(Box<str>, Option<Told>)>),
}

impl Told {
    pub(crate) fn forwarded(&self) -> Option<&Forwarded> {
        match self {
            Self::Forwarded(forwarded) => Some(forwarded),
            Self::Refused(_) => None,
            Self::User(both) => both.1.as_ref()?.forwarded(),
        }
    }

    pub(crate) fn refused(&self) -> Option<&Refused> {
        match self {
            Self::Forwarded(_) => None,
            Self::Refused(refused) => Some(refused),
            Self::User(both) => both.1.as_ref()?.refused(),
        }
    }

    pub(crate) fn user(&self) -> Option<&str> {
        if let Self::User(both) = self { Some(&both.0) } else { None }
    }
}

impl Forwarded {
    /// To `upstream`; nothing else has happened yet.
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
