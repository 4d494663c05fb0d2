//! Non-HTTP connections, and the trait for their drivers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
#[cfg(feature = "tls")]
use std::time::Duration;

#[cfg(feature = "tls")]
use thruway_net::tls::{ClientHello, HandshakeError, read_client_hello};
use thruway_net::{ConnectionGuard, PooledBuffer, Stream, Worker};

use crate::connection_info::ConnectionInfo;
use crate::record::{StreamRecord, StreamRecords};

/// Drives the connections of a listener that does not use HTTP: see
/// [`Listener::streams`](crate::Listener::streams).
pub trait ServeStream: Send + Sync + 'static {
    /// Drives a connection to its end, on the thread of its worker. If the connection is still open at the
    /// timeout of a graceful shutdown, the future is dropped.
    fn serve(&self, client: ClientStream) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// An accepted connection. It counts as open until this value is dropped.
pub struct ClientStream {
    /// The connection.
    pub stream: Stream,
    /// Bytes that were already read.
    pub early: PooledBuffer,
    /// Properties of the connection.
    pub info: ConnectionInfo,
    guard: ConnectionGuard,
    records: Option<StreamRecords>,
}

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

    /// Reads the first message of a TLS client, which must arrive within the time `within`. The bytes of the
    /// message stay in [`early`](Self::early) for the TLS handshake.
    ///
    /// # Errors
    /// The message is invalid, missing or late.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the future is dropped, the bytes that were read are lost.
    #[cfg(feature = "tls")]
    pub async fn read_client_hello(&mut self, within: Duration) -> Result<ClientHello, HandshakeError> {
        let early = std::mem::take(&mut self.early);
        let (hello, early) = read_client_hello(&mut self.stream, early, &self.guard, within).await?;
        self.early = early;
        Ok(hello)
    }

    /// Returns the worker that drives the connection.
    pub const fn worker(&self) -> &Rc<Worker> {
        self.guard.worker()
    }

    /// Returns `true` if the connection limit was reached when this connection arrived.
    pub const fn is_over_limit(&self) -> bool {
        self.guard.is_over_limit()
    }

    /// Records the connection if the server has a recorder.
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
