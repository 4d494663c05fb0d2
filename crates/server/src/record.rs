//! What is told of a request when it has been answered: for access logs and metrics.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thruway_message::{RequestHead, StatusCode};
use thruway_net::ClientAddr;

use crate::{ConnectionInfo, TakeStreamRecord};

/// A request and how it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The connection it came on.
    pub connection: &'a ConnectionInfo,
    /// Who asked: the other end of the connection, or who a [trusted proxy](crate::TrustedProxies) says.
    pub client: ClientAddr,
    /// Its head; `None` if what came could not be read as a request.
    pub head: Option<RequestHead<'a>>,
    /// The time of day when it had been answered.
    pub time: SystemTime,
    /// The status of the answer.
    pub status: StatusCode,
    /// Octets of content sent, or handed to the kernel's care to send; of a tunnel, all that went to the client.
    pub content_bytes: u64,
    /// Octets that came from the client through the tunnel that its request has made; `None` without one.
    pub received_bytes: Option<u64>,
    /// From the arrival of the whole head to the end of the answer, or of the tunnel.
    pub duration: Duration,
    /// How it was forwarded, if it was and its handler has told.
    pub forwarded: Option<&'a Forwarded>,
    /// What refused it, if it went no further than that and its handler has told.
    pub refused: Option<&'a Refused>,
    /// The name of the user that the request was authenticated as, if its handler has set one.
    pub user: Option<&'a str>,
    /// Whether the whole answer was written; otherwise the client went, the content failed, or the time of a drain was over.
    pub is_complete: bool,
    /// Whether it was that: the server has not waited any longer.
    pub is_cut_off: bool,
}

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

/// What has refused a request: a handler gives it to its response, with [`set_refused`](crate::Response::set_refused).
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

/// Makes, for each worker, the function that takes its records. That runs on the worker's thread, for every request:
/// it must not block.
pub trait Recorder: Send + Sync + 'static {
    /// The function of one worker.
    fn start(&self) -> TakeRecord;

    /// The function of one worker that takes what is told of connections that are no HTTP. Default one that does nothing.
    fn start_streams(&self) -> TakeStreamRecord {
        Box::new(|_| {})
    }
}

/// Takes the records of one worker.
pub type TakeRecord = Box<dyn FnMut(&Record<'_>)>;
