//! The record of a completed request, for access logs and metrics.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use thruway_message::{RequestHead, StatusCode};
use thruway_net::ClientAddr;

use crate::connection_info::ConnectionInfo;
use crate::response::{Forwarded, Refused};

/// A request and its outcome.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The connection of the request.
    pub connection: &'a ConnectionInfo,
    /// The client: the other end of the connection, or the client that a [trusted
    /// proxy](crate::TrustedProxies) names.
    pub client: ClientAddr,
    /// Head of the request. `None` for bytes that are not a request.
    pub head: Option<RequestHead<'a>>,
    /// Time of day when the response was complete.
    pub time: SystemTime,
    /// Status of the response.
    pub status: StatusCode,
    /// Body bytes that were sent or passed to the kernel. For a tunnel, all bytes to the client.
    pub content_bytes: u64,
    /// Bytes from the client through the tunnel of the request. `None` without a tunnel.
    pub received_bytes: Option<u64>,
    /// Time from the arrival of the complete head to the end of the response or tunnel.
    pub duration: Duration,
    /// Data about a forwarded request, if its handler has added it.
    pub forwarded: Option<&'a Forwarded>,
    /// The policy that rejected the request, if its handler has added it.
    pub refused: Option<&'a Refused>,
    /// Name of the authenticated user, if its handler has set it.
    pub user: Option<&'a str>,
    /// `true` if the whole response was written. Otherwise the client left, the body failed, or the drain has
    /// cut it off.
    pub is_complete: bool,
    /// `true` if the drain has cut it off.
    pub is_cut_off: bool,
}

/// A connection without HTTP and its outcome.
#[derive(Clone, Copy, Debug)]
pub struct StreamRecord<'a> {
    /// The connection.
    pub connection: &'a ConnectionInfo,
    /// Time of day at its end.
    pub time: SystemTime,
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The server of the connection, or the last one that was tried.
    pub server: Option<&'a str>,
    /// Number of retries.
    pub retries: u32,
    /// Time until a server accepted the connection. `None` if none did.
    pub connect: Option<Duration>,
    /// Bytes from the client to the server.
    pub received_bytes: u64,
    /// Bytes from the server to the client.
    pub sent_bytes: u64,
    /// Time from the accept of the connection to its end.
    pub duration: Duration,
    /// Reason for its end, in one word.
    pub end: &'static str,
}

/// Receives the stream records of one worker.
pub type TakeStreamRecord = Box<dyn FnMut(&StreamRecord<'_>)>;

/// Receives stream records for all listeners.
pub(crate) type StreamRecords = Rc<RefCell<TakeStreamRecord>>;

/// Creates the function that receives the records of a worker. The function runs on the worker's thread for
/// each request and must not block.
pub trait Recorder: Send + Sync + 'static {
    /// Returns the function of one worker.
    fn start(&self) -> TakeRecord;

    /// Returns the function of one worker that receives records of connections without HTTP. Default: a
    /// function without effect.
    fn start_streams(&self) -> TakeStreamRecord {
        Box::new(|_| {})
    }
}

/// Receives the records of one worker.
pub type TakeRecord = Box<dyn FnMut(&Record<'_>)>;
