//! The record of a completed request, for access logs and metrics.

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
    /// The client: the other end of the connection, or the client that a [trusted
    /// proxy](crate::TrustedProxies) names.
    pub client: ClientAddr,
    /// Its head; `None` if what came could not be read as a request.
    pub head: Option<RequestHead<'a>>,
    /// The time of day when it had been answered.
    pub time: SystemTime,
    /// The status of the answer.
    pub status: StatusCode,
    /// Content bytes that were sent or passed to the kernel; for a tunnel, all bytes to the client.
    pub content_bytes: u64,
    /// Bytes from the client through the tunnel of the request. `None` without a tunnel.
    pub received_bytes: Option<u64>,
    /// From the arrival of the whole head to the end of the answer, or of the tunnel.
    pub duration: Duration,
    /// The way of a forwarded request, if its handler has added it.
    pub forwarded: Option<&'a Forwarded>,
    /// The policy that refused the request, if its handler has added it.
    pub refused: Option<&'a Refused>,
    /// The name of the user that the request was authenticated as, if its handler has set one.
    pub user: Option<&'a str>,
    /// `true` if the whole response was written. Otherwise the client left, the content failed, or the drain
    /// has cut it off.
    pub is_complete: bool,
    /// `true` if the drain has cut it off.
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
    /// Number of retries.
    pub retries: u32,
    /// Time until a server accepted the connection. `None` if none did.
    pub connect: Option<Duration>,
    /// Bytes from the client to the server.
    pub received_bytes: u64,
    /// Bytes from the server to the client.
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

    /// Returns the function of one worker that records connections other than HTTP. Default: a function
    /// without effect.
    fn start_streams(&self) -> TakeStreamRecord {
        Box::new(|_| {})
    }
}

/// Takes the records of one worker.
pub type TakeRecord = Box<dyn FnMut(&Record<'_>)>;
