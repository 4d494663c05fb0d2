//! Connections that are no HTTP: what drives them, and what is told of them.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use thruway_net::tls::{ClientHello, HandshakeError, read_client_hello};
use thruway_net::{ConnectionGuard, PooledBuffer, Stream, Worker};

use crate::ConnectionInfo;

/// Drives the connections of a listener that is not for HTTP: see [`Listener::streams`](crate::Listener::streams).
pub trait ServeStream: Send + Sync + 'static {
    /// Drives a connection to its end, on the thread of its worker. When the drain comes to its end, the future is dropped.
    fn serve(&self, client: ClientStream) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// A connection that was accepted. It is counted until this is dropped.
pub struct ClientStream {
    /// The connection.
    pub stream: Stream,
    /// What of it was read already.
    pub early: PooledBuffer,
    /// What is known of it.
    pub info: ConnectionInfo,
    guard: ConnectionGuard,
    records: Option<StreamRecords>,
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

impl ClientStream {
    pub(crate) const fn new(
        stream: Stream,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
        records: Option<StreamRecords>,
    ) -> Self {
        Self { stream, early, info, guard, records }
    }

    /// Reads the first message of a client of TLS, within `within`. It stays with what was read [early](Self::early), for whoever speaks TLS with
    /// the client.
    ///
    /// # Errors
    /// No such message comes, or not in time.
    ///
    /// # Cancel safety
    /// If the future is dropped, what was read is lost.
    pub async fn read_client_hello(&mut self, within: Duration) -> Result<ClientHello, HandshakeError> {
        let early = std::mem::take(&mut self.early);
        let (hello, early) = read_client_hello(&mut self.stream, early, &self.guard, within).await?;
        self.early = early;
        Ok(hello)
    }

    /// The worker that drives the connection.
    pub const fn worker(&self) -> &Rc<Worker> {
        self.guard.worker()
    }

    /// Whether there were as many connections as allowed already when this one came.
    pub const fn is_over_limit(&self) -> bool {
        self.guard.is_over_limit()
    }

    /// Tells how the connection went, if anybody wants to know.
    pub fn record(&self, record: &StreamRecord<'_>) {
        if let Some(records) = &self.records {
            records.borrow_mut()(record);
        }
    }
}

impl fmt::Debug for ClientStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientStream").field("info", &self.info).finish_non_exhaustive()
    }
}
