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
    /// Octets of content sent, or handed to the kernel's care to send.
    pub content_bytes: u64,
    /// From the arrival of the whole head to the end of the answer.
    pub duration: Duration,
    /// How it was forwarded, if it was and its handler has told.
    pub forwarded: Option<&'a Forwarded>,
    /// Whether the whole answer was written; otherwise the client went or the content failed.
    pub is_complete: bool,
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
