//! The octets of a connection, between its transport and the library.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{Gathered, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The transport as the library has it. What is written is kept until it is flushed, or much: the library writes frame by frame.
pub struct Octets<T> {
    transport: T,
    output: Gathered,
    /// How many octets have come, for those who want to know whether the upstream is still there.
    received: Rc<Cell<u64>>,
}

impl<T: Transport> Octets<T> {
    /// Those of `transport`; what comes is counted in `received`.
    pub fn new(transport: T, received: Rc<Cell<u64>>) -> Self {
        Self { transport, output: Gathered::default(), received }
    }

    /// Ready when there is room for more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_full() { self.poll_written(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Writes what waits.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_write_all(cx, &mut self.transport, &mut false)
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
        self.output.push(octets);
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
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
