//! The record of a completed request, for access logs and metrics.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use thruway_message::{RequestHead, StatusCode};
use thruway_net::ClientAddr;
use thruway_telemetry::TraceParent;

use crate::connection_info::ConnectionInfo;
use crate::response::{Forwarded, Refused};

/// A request and its outcome.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The connection of the request.
    pub connection: &'a ConnectionInfo,
    /// The client. If a [trusted proxy](crate::TrustedProxies) has reported the client, this is the reported
    /// address. Otherwise, it is the other end of the connection.
    pub client: ClientAddr,
    /// The scheme that the client uses. This is the scheme that a trusted proxy reports, or else the scheme
    /// of the connection.
    pub scheme: &'static str,
    /// Head of the request. `None` for bytes that are not a valid request.
    pub head: Option<RequestHead<'a>>,
    /// Time of day at the end of the response.
    pub time: SystemTime,
    /// Status of the response.
    pub status: StatusCode,
    /// Number of response body bytes that were sent or passed to the kernel. For a tunnel, the number of
    /// bytes from the tunnel to the client.
    pub content_bytes: u64,
    /// Number of bytes that the client has sent through the tunnel. `None` if the request has opened no
    /// tunnel.
    pub received_bytes: Option<u64>,
    /// Time from the arrival of the complete head to the end of the response or tunnel.
    pub duration: Duration,
    /// The upstream, retries and timings of the request, if the handler has forwarded it and recorded this
    /// data.
    pub forwarded: Option<&'a Forwarded>,
    /// The policy that rejected the request, if any.
    pub refused: Option<&'a Refused>,
    /// Name of the authenticated user, if a handler or layer has set it.
    pub user: Option<&'a str>,
    /// Name of the route, if a handler or layer has set it.
    pub route: Option<&'a str>,
    /// `false` if a handler or layer has left the request out of the access log.
    pub is_logged: bool,
    /// The trace of the request and the id of its span. `None` if tracing is off.
    pub trace: Option<TraceParent>,
    /// `true` if the whole response was written. `false` if the client left, the body failed, or the timeout
    /// of a graceful shutdown expired.
    pub is_complete: bool,
    /// `true` if the response is incomplete because the timeout of a graceful shutdown expired.
    pub is_cut_off: bool,
}

/// A non-HTTP connection and its outcome.
#[derive(Clone, Copy, Debug)]
pub struct StreamRecord<'a> {
    /// The connection.
    pub connection: &'a ConnectionInfo,
    /// Time of day at the end of the connection.
    pub time: SystemTime,
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The upstream server of the connection, or the last server that was tried.
    pub server: Option<&'a str>,
    /// Number of retries to connect to an upstream server.
    pub retries: u32,
    /// Time until a server accepted the connection. `None` if no server accepted it.
    pub connect: Option<Duration>,
    /// Number of bytes from the client to the server.
    pub received_bytes: u64,
    /// Number of bytes from the server to the client.
    pub sent_bytes: u64,
    /// Time from the accept of the connection to its end.
    pub duration: Duration,
    /// Reason for the end of the connection, in one word.
    pub end: &'static str,
}

impl StreamRecord<'_> {
    /// Returns `true` if the connection ended with an error. Connections that end normally, or because they
    /// were idle, are no failures.
    pub(crate) fn is_failure(&self) -> bool {
        !matches!(self.end, "completed" | "idle_timeout")
    }
}

/// A function that receives the records of the non-HTTP connections of one worker.
pub type TakeStreamRecord = Box<dyn FnMut(&StreamRecord<'_>)>;

/// The function that receives the records of non-HTTP connections, shared by all listeners of a worker.
pub(crate) type StreamRecords = Rc<RefCell<TakeStreamRecord>>;

/// Receives the records of requests and connections. For each worker, it creates a function that the worker
/// calls on its own thread after each request. This function must not block.
pub trait Recorder: Send + Sync + 'static {
    /// Returns the function that receives the records of requests on one worker.
    fn start(&self) -> TakeRecord;

    /// Returns the function that receives the records of non-HTTP connections on one worker. The default
    /// function ignores the records.
    fn start_streams(&self) -> TakeStreamRecord {
        Box::new(|_| {})
    }
}

/// A function that receives the records of the requests of one worker.
pub type TakeRecord = Box<dyn FnMut(&Record<'_>)>;
