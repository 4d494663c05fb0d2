//! Tunnels: connections without HTTP, after `101 (Switching Protocols)` or a successful CONNECT.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{Pipe, PooledBuffer, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection as a byte stream in both directions. It implements the I/O traits of tokio, so crates for
/// other protocols can use it. If a write is pending over TLS, some of its bytes may already be encrypted. So
/// the next write must begin with the same bytes.
///
/// After the tunnel is dropped, the server still sends the written bytes that are unsent. Over TLS, it also
/// sends the end of the stream, unless the unsent bytes were [discarded](Transport::discard_unsent).
pub struct Tunnel {
    /// Bytes that arrived with the head.
    early: PooledBuffer,
    early_used: usize,
    /// `None` only during the drop.
    transport: Option<Box<dyn Transport>>,
    trace: Rc<TunnelTrace>,
}

/// The state of a tunnel, through which the tunnel reports to its connection.
#[derive(Default)]
pub(crate) struct TunnelTrace {
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    is_broken_off: Cell<bool>,
    /// The transport, which a dropped tunnel returns to its connection.
    returned: Cell<Option<Box<dyn Transport>>>,
}

impl Tunnel {
    /// Creates a tunnel over `transport`. `early` contains the bytes that arrived with the request head.
    /// Reads return these bytes first.
    pub fn new(transport: Box<dyn Transport>, early: PooledBuffer) -> Self {
        Self::traced(transport, early, Rc::default())
    }

    /// Returns a tunnel that reports to `trace`.
    pub(crate) fn traced(transport: Box<dyn Transport>, early: PooledBuffer, trace: Rc<TunnelTrace>) -> Self {
        Self { early, early_used: 0, transport: Some(transport), trace }
    }

    /// Calls `act` with the transport. An error marks the tunnel as failed.
    fn poll_with<R>(
        &mut self,
        act: impl FnOnce(&mut dyn Transport) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let outcome = match &mut self.transport {
            Some(transport) => act(&mut **transport),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        if let Poll::Ready(Err(_)) = outcome {
            self.trace.is_broken_off.set(true);
        }
        outcome
    }

    /// Copies early bytes into `buffer`. Returns their number.
    fn take_early(&mut self, buffer: &mut [u8]) -> usize {
        let early = &self.early[self.early_used..];
        let length = early.len().min(buffer.len());
        buffer[..length].copy_from_slice(&early[..length]);
        self.early_used += length;
        if self.early_used == self.early.len() {
            self.early = PooledBuffer::default();
            self.early_used = 0;
        }
        length
    }

    fn note_received(&self, bytes: usize) -> usize {
        self.trace.received_bytes.set(self.trace.received_bytes.get() + bytes as u64);
        bytes
    }

    fn note_sent(&self, bytes: usize) -> usize {
        self.trace.sent_bytes.set(self.trace.sent_bytes.get() + bytes as u64);
        bytes
    }
}

impl TunnelTrace {
    /// Returns the number of bytes that the client has sent and the handler has read.
    pub(crate) const fn received_bytes(&self) -> u64 {
        self.received_bytes.get()
    }

    /// Returns the number of bytes that were written to the client.
    pub(crate) const fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    /// Records that the tunnel has ended early.
    pub(crate) fn break_off(&self) {
        self.is_broken_off.set(true);
    }

    /// Returns `true` if the connection has failed, unsent bytes were discarded, or the tunnel has ended
    /// early.
    pub(crate) const fn is_broken_off(&self) -> bool {
        self.is_broken_off.get()
    }

    /// Takes the transport, if the tunnel was dropped.
    pub(crate) fn take_returned(&self) -> Option<Box<dyn Transport>> {
        self.returned.take()
    }
}

impl Transport for Tunnel {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = match self.take_early(buffer) {
            0 => ready!(self.poll_with(|transport| transport.poll_read(cx, buffer)))?,
            early => early,
        };
        Poll::Ready(Ok(self.note_received(read)))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = ready!(self.poll_with(|transport| transport.poll_write(cx, slices)))?;
        Poll::Ready(Ok(self.note_sent(written)))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let sent = ready!(self.poll_with(|transport| transport.poll_send_file(cx, file, offset, length)))?;
        Poll::Ready(Ok(self.note_sent(sent)))
    }

    fn splices(&self) -> bool {
        self.transport.as_ref().is_some_and(|transport| transport.splices())
    }

    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let sent = ready!(self.poll_with(|transport| transport.poll_splice(cx, pipe)))?;
        Poll::Ready(Ok(self.note_sent(sent)))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, length: usize) -> Poll<io::Result<usize>> {
        if !self.early.is_empty() {
            return pipe.poll_copy_from(cx, self, length);
        }
        let received = ready!(self.poll_with(|transport| transport.poll_fill(cx, pipe, length)))?;
        Poll::Ready(Ok(self.note_received(received)))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(|transport| transport.poll_flush(cx))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(|transport| transport.poll_close(cx))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(|transport| transport.poll_shutdown(cx))
    }

    fn discard_unsent(&mut self) {
        self.trace.is_broken_off.set(true);
        if let Some(transport) = &mut self.transport {
            transport.discard_unsent();
        }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = ready!(Transport::poll_read(&mut *self, cx, buffer.initialize_unfilled()))?;
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Transport::poll_write(&mut *self, cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Transport::poll_write(&mut *self, cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Transport::poll_flush(&mut *self, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Transport::poll_shutdown(&mut *self, cx)
    }
}

/// Returns the transport to the HTTP connection, which closes it.
impl Drop for Tunnel {
    fn drop(&mut self) {
        self.trace.returned.set(self.transport.take());
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}

type BoxedRun = Box<dyn FnOnce(Tunnel) -> Pin<Box<dyn Future<Output = ()>>>>;

/// Handler of a tunnel.
pub(crate) struct TunnelHandler(BoxedRun);

impl TunnelHandler {
    pub(crate) fn new<F: Future<Output = ()> + 'static>(run: impl FnOnce(Tunnel) -> F + 'static) -> Self {
        Self(Box::new(move |tunnel| Box::pin(run(tunnel))))
    }

    pub(crate) fn run(self, tunnel: Tunnel) -> Pin<Box<dyn Future<Output = ()>>> {
        (self.0)(tunnel)
    }
}

impl fmt::Debug for TunnelHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TunnelHandler")
    }
}
