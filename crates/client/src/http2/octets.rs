//! The octets of a connection, between its transport and the library.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{PooledBuffer, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The transport as the library has it. What is written is kept until it is flushed, or much: the library writes frame by frame.
pub struct Octets<T> {
    transport: T,
    output: PooledBuffer,
    written: usize,
    /// How many octets have come, for those who want to know whether the upstream is still there.
    received: Rc<Cell<u64>>,
}

impl<T: Transport> Octets<T> {
    /// Those of `transport`; what comes is counted in `received`.
    pub fn new(transport: T, received: Rc<Cell<u64>>) -> Self {
        Self { transport, output: PooledBuffer::default(), written: 0, received }
    }

    fn keep(&mut self, octets: &[u8]) {
        if self.output.capacity() == 0 {
            self.output = PooledBuffer::take();
        }
        self.output.extend_from_slice(octets);
    }

    /// Ready when there is room for more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.len() < OUTPUT_BYTES { Poll::Ready(Ok(())) } else { self.poll_written(cx) }
    }

    /// Writes what waits.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            let waiting = IoSlice::new(&self.output[self.written..]);
            match ready!(self.transport.poll_write(cx, &[waiting]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.output = PooledBuffer::default();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

/// Nothing in it is pinned.
impl<T> Unpin for Octets<T> {}

impl<T: Transport> AsyncRead for Octets<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.transport.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        self.received.set(self.received.get().wrapping_add(read as u64));
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for Octets<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
        self.keep(octets);
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
        for slice in slices {
            self.keep(slice);
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

/// Frames are put together up to this.
const OUTPUT_BYTES: usize = 64 << 10;
