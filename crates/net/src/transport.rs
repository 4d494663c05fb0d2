//! The common interface of connections: bytes in both directions, over sockets, TLS or memory.

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
/// A method that returns [`Poll::Pending`] has registered the task of `cx` to be woken.
pub trait Transport: 'static {
    /// Reads into `buffer`. Returns the number of bytes; 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Returns `true` if the peer has neither sent more data nor ended the stream, as far as this thread
    /// knows. Ignores tokio's poll budget of the task, because a read without budget is always pending. If
    /// the result is `false`, received data may be lost, so the connection must not be used again.
    fn has_no_input(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(unconstrained(poll_fn(|cx| self.poll_read(cx, &mut [0])))).poll(&mut cx).is_pending()
    }

    /// Returns `false` if neither data nor the end has arrived since the last read found nothing. The waker
    /// of that read is then still registered. A transport that cannot tell returns `true`.
    fn may_have_arrived(&self) -> bool {
        true
    }

    /// Writes some of `slices`, and returns the number of bytes. After `Pending`, the caller must retry with
    /// the same bytes first, or must stop writing: a transport that encrypts may have sent a part of them.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Returns `true` if the peer may have got some bytes of a [`poll_write`](Self::poll_write) that was
    /// pending.
    fn has_written_part(&self) -> bool {
        false
    }

    /// Writes up to `length` bytes of `file`, starting at `offset`. Returns the number of bytes; 0 is the end
    /// of the file.
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

    /// Returns `true` if the connection uses TLS, so that others on the network path cannot read or change
    /// the data.
    fn is_secured(&self) -> bool {
        false
    }

    /// Returns `true` if [`poll_splice`](Self::poll_splice) works without copying, so that pipes are worth
    /// using.
    fn splices(&self) -> bool {
        false
    }

    /// Writes some bytes of `pipe`, which is not empty. Returns the number of bytes.
    ///
    /// # Errors
    /// The connection or the pipe failed.
    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        pipe.poll_copy_to(cx, self)
    }

    /// Reads at most `length` bytes into `pipe`, which is empty, and at most as many as the pipe can hold.
    /// Returns the number of bytes; 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, length: usize) -> Poll<io::Result<usize>> {
        pipe.poll_copy_from(cx, self, length)
    }

    /// Ready when the operating system has all written data. The default is for transports without a buffer.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ready when the operating system has all written data, including a close message such as TLS
    /// `close_notify`. Call this before a connection is dropped after a regular end. Writing is impossible
    /// after it.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    /// Ends the writing side of the connection.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Discards unsent data when the connection is closed, and reports the abort to the peer.
    fn discard_unsent(&mut self);
}

impl Pipe {
    /// Fills the pipe, which is empty, with at most `length` bytes of `transport`, without splicing. Returns
    /// the number of bytes.
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

    /// Empties the pipe without splicing, for other transports than sockets or after the kernel has refused.
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

/// Data that waits to be written. It owns a buffer only while data waits.
#[derive(Default)]
pub struct Gathered {
    bytes: PooledBuffer,
    written: usize,
}

impl Gathered {
    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes = PooledBuffer::take();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns `true` if enough data waits that it must be written before more is added.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES
    }

    /// Writes all data. Sets `has_moved` to `true` if any byte was written.
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
