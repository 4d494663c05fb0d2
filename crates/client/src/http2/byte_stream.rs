//! Adapts the transport of a connection to the h2 library.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{Gathered, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts the bytes that a connection has received.
#[derive(Debug, Default)]
pub struct ReceivedBytes {
    bytes: Cell<u64>,
    /// Payload length of the first frame (RFC 9113 §4.1), as far as its bytes have arrived.
    first_frame: Cell<u64>,
}

impl ReceivedBytes {
    /// Returns the number of received bytes. An increase shows that the upstream server still sends data.
    pub const fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Returns `true` if the first frame has arrived. This frame contains the settings of the upstream
    /// server (RFC 9113 §3.4).
    pub const fn has_settings(&self) -> bool {
        self.bytes.get() >= FRAME_HEAD_BYTES + self.first_frame.get()
    }

    fn note(&self, bytes: &[u8]) {
        let before = usize::try_from(self.bytes.get()).unwrap_or(usize::MAX);
        for byte in bytes.iter().take(LENGTH_BYTES.saturating_sub(before)) {
            self.first_frame.set(self.first_frame.get() << 8 | u64::from(*byte));
        }
        self.bytes.set(self.bytes.get().wrapping_add(bytes.len() as u64));
    }
}

/// A transport in the form that the h2 library needs. `ByteStream` buffers written data until a flush or
/// until the buffer is full, because the library writes each frame separately.
pub struct ByteStream<T> {
    transport: T,
    output: Gathered,
    heard: Rc<ReceivedBytes>,
}

impl<T: Transport> ByteStream<T> {
    /// Wraps `transport`. Counts received bytes in `heard`.
    pub fn new(transport: T, heard: Rc<ReceivedBytes>) -> Self {
        Self { transport, output: Gathered::default(), heard }
    }

    /// Becomes ready when the buffer has space for more data.
    fn poll_write_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_full() { self.poll_written(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Writes the buffered data.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_write_all(cx, &mut self.transport, &mut false)
    }
}

/// `ByteStream` can implement `Unpin`, because no field is pinned.
impl<T> Unpin for ByteStream<T> {}

impl<T: Transport> AsyncRead for ByteStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.transport.poll_read(cx, buffer.initialize_unfilled()))?;
        let filled = buffer.filled().len();
        buffer.advance(read);
        self.heard.note(&buffer.filled()[filled..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for ByteStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_capacity(cx))?;
        self.output.push(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_capacity(cx))?;
        for slice in slices {
            self.output.push(slice);
        }
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_written(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_written(cx))?;
        self.transport.poll_shutdown(cx)
    }
}

/// Length of a frame header in bytes. The first three bytes of the header are the length of the frame's
/// payload.
const FRAME_HEAD_BYTES: u64 = 9;
const LENGTH_BYTES: usize = 3;
