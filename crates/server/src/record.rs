//! What is told of a request when it has been answered: for access logs and metrics.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use thruway_message::{RequestHead, StatusCode};
use thruway_net::ClientAddr;

use crate::connection_info::ConnectionInfo;
use crate::response::{Forwarded, Refused};

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
    /// Octets of content sent, or handed to the kernel's care to send; of a tunnel, all that went to the
    /// client.
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
    /// Whether the whole answer was written; otherwise the client went, the content failed, or the time of a
    /// drain was over.
    pub is_complete: bool,
    /// Whether it was that: the server has not waited any longer.
    pub is_cut_off: bool,
}

/// A connection and how it went.
#[derive(Clone, Copy, Debug)]
pub struct StreamRecord<'a> {
    /// The connection.
    pub connection: &'a ConnectionInfo,
    /// The time of day when it had ended.
    pub time: SystemTime,
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The server that had the connection, or was tried last.
    pub server: Option<&'a str>,
    /// How many more servers were tried.
    pub retries: u32,
    /// How long it took until a server had accepted; `None` if none has.
    pub connect: Option<Duration>,
    /// Octets that went from the client to the server.
    pub received_bytes: u64,
    /// Octets that went from the server to the client.
    pub sent_bytes: u64,
    /// From when the connection was accepted to its end.
    pub duration: Duration,
    /// Why it has ended: one word.
    pub end: &'static str,
}

/// Takes the records of the streams of one worker.
pub type TakeStreamRecord = Box<dyn FnMut(&StreamRecord<'_>)>;

/// Takes them for all listeners.
pub(crate) type StreamRecords = Rc<RefCell<TakeStreamRecord>>;

/// Makes, for each worker, the function that takes its records. That runs on the worker's thread, for every
/// request: it must not block.
pub trait Recorder: Send + Sync + 'static {
    /// The function of one worker.
    fn start(&self) -> TakeRecord;

    /// The function of one worker that takes what is told of connections that are no HTTP. Default one that
    /// does nothing.
    fn start_streams(&self) -> TakeStreamRecord {
        Box::new(|_| {})
    }
}

/// Takes the records of one worker.
pub type TakeRecord = Box<dyn FnMut(&Record<'_>)>;
