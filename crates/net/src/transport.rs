//! Common interface of all kinds of connections, such as sockets, TLS connections and in-memory pipes.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::unconstrained;

use crate::buffers::PooledBuffer;
use crate::splice::{COPY_BYTES, Pipe};

/// A non-blocking byte stream in both directions.
///
/// A method that returns [`Poll::Pending`] wakes the task of `cx` when the caller should poll again.
pub trait Transport: 'static {
    /// Reads bytes into `buffer`. Returns the number of bytes, or 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Returns `true` if neither more data nor the end of the stream has arrived. Ignores the cooperative
    /// budget of tokio, because a read returns `Pending` when the budget is used up. If the result is
    /// `false`, the check may have discarded received data, so the connection must not be used again.
    fn has_no_input(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(unconstrained(poll_fn(|cx| self.poll_read(cx, &mut [0])))).poll(&mut cx).is_pending()
    }

    /// Returns `false` if neither data nor the end of the stream has arrived since the last read was
    /// pending. The waker of that read is then still registered. Returns `true` if data may have arrived or
    /// if the transport does not know.
    fn may_have_arrived(&self) -> bool {
        true
    }

    /// Writes some bytes of `slices`, and returns the number of bytes. After `Pending`, the next call must
    /// start with the same bytes, or the caller must stop writing. The reason is that a TLS transport may
    /// already have encrypted and sent some of these bytes.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Returns `true` if the peer may have received some bytes of a [`poll_write`](Self::poll_write) that
    /// returned `Pending`.
    fn has_written_part(&self) -> bool {
        false
    }

    /// Writes up to `length` bytes of `file`, starting at `offset`. Returns the number of bytes, or 0 at
    /// the end of the file.
    ///
    /// # Errors
    /// The connection or the file failed.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>>;

    /// Returns `true` if the connection uses TLS.
    fn is_secured(&self) -> bool {
        false
    }

    /// Returns `true` if [`poll_splice`](Self::poll_splice) and [`poll_fill`](Self::poll_fill) work without
    /// copying. Otherwise, pipes have no advantage over buffers.
    fn splices(&self) -> bool {
        false
    }

    /// Writes some bytes of `pipe` to the connection. The pipe must not be empty. Returns the number of
    /// written bytes.
    ///
    /// # Errors
    /// The connection or the pipe failed.
    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        pipe.poll_copy_to(cx, self)
    }

    /// Reads at most `length` bytes into `pipe`. The pipe must be empty. Reads no more bytes than the pipe
    /// can hold. Returns the number of bytes, or 0 at the end of the stream.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, length: usize) -> Poll<io::Result<usize>> {
        pipe.poll_copy_from(cx, self, length)
    }

    /// Ready when all written data was passed to the operating system. The default implementation is for
    /// transports without a buffer.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ready when all written data and the close message, such as TLS `close_notify`, are passed to the
    /// operating system. Call this before dropping a connection that ends regularly. After this call,
    /// writing is impossible.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    /// Shuts down the write side of the connection.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Discards unsent data. The peer then sees an aborted connection instead of a regular end.
    fn discard_unsent(&mut self);
}

impl Pipe {
    /// Reads at most `length` bytes from `transport`, and copies the bytes into this pipe without `splice`.
    /// The pipe must be empty. Returns the number of bytes.
    ///
    /// # Errors
    /// The connection failed.
    pub fn poll_copy_from<T: Transport + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut copied = PooledBuffer::take();
        copied.resize(length.min(COPY_BYTES), 0);
        let read = ready!(transport.poll_read(cx, &mut copied))?;
        copied.truncate(read);
        self.set_copied(copied);
        Poll::Ready(Ok(read))
    }

    /// Copies some bytes of this pipe to `transport` without `splice`. Callers use this function for
    /// transports other than sockets, and after the kernel has refused to splice. Returns the number of
    /// bytes.
    pub(crate) fn poll_copy_to<T: Transport + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
    ) -> Poll<io::Result<usize>> {
        if !self.has_copied() {
            self.copy_out()?;
        }
        let written = ready!(transport.poll_write(cx, &[IoSlice::new(self.copied_left())]))?;
        self.advance_copied(written);
        Poll::Ready(Ok(written))
    }
}

/// Data that waits to be written. This value uses a buffer only while data waits.
#[derive(Default)]
pub struct Gathered {
    bytes: PooledBuffer,
    written: usize,
}

impl Gathered {
    /// Appends `bytes` to the waiting data.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes = PooledBuffer::take();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns `true` if so much data waits that the caller must write the data before adding more.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES
    }

    /// Writes all waiting data. Sets `has_moved` to `true` if any byte was written.
    ///
    /// # Errors
    /// The connection failed.
    pub fn poll_write_all<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        has_moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() {
            let waiting = IoSlice::new(&self.bytes[self.written..]);
            match ready!(transport.poll_write(cx, &[waiting]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            *has_moved = true;
        }
        *self = Self::default();
        Poll::Ready(Ok(()))
    }
}

const FULL_BYTES: usize = 64 << 10;
