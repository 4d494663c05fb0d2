//! The output of a connection: bytes that wait to be sent to the client.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use thruway_net::{Pipe, PooledBuffer, Transport};

use crate::response::FileRange;

/// Bytes to write. After them, the output may contain one large piece of a body, which is written without a
/// copy.
#[derive(Default)]
pub(super) struct Output {
    bytes: PooledBuffer,
    /// Number of bytes in `bytes` that are already written.
    written: usize,
    tail: Tail,
    /// `true` if the end of the connection marks the end of the last response.
    pub(super) ends_with_connection: bool,
}

/// A large piece after the bytes of the output. Until the piece is written, no data can be added to the
/// output.
#[derive(Default)]
pub(super) enum Tail {
    #[default]
    None,
    Bytes(Bytes),
    File(FileRange),
    Piped(Pipe),
}

impl Output {
    /// Returns the buffer to append to. There must be no tail.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        debug_assert!(!self.has_tail(), "the tail must be written first");
        &mut self.bytes
    }

    /// Adds `tail` after the bytes.
    pub(super) fn set_tail(&mut self, tail: Tail) {
        debug_assert!(!self.has_tail(), "the tail must be written first");
        self.tail = tail;
    }

    /// Returns `true` if everything is written.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == self.written && !self.has_tail()
    }

    /// Returns `true` if more may be added: there is no tail, and fewer than `bytes_max` bytes are unwritten.
    #[inline]
    pub(super) fn has_capacity(&self, bytes_max: usize) -> bool {
        !self.has_tail() && self.bytes.len() - self.written < bytes_max
    }

    /// Returns `true` if the output contains an unwritten large piece.
    pub(super) const fn has_tail(&self) -> bool {
        !matches!(self.tail, Tail::None)
    }

    /// Returns the number of unwritten bytes of the large piece.
    pub(super) fn tail_bytes(&self) -> u64 {
        match &self.tail {
            Tail::None => 0,
            Tail::Bytes(bytes) => bytes.len() as u64,
            Tail::File(range) => range.length,
            Tail::Piped(pipe) => pipe.len() as u64,
        }
    }

    /// Takes the `shared` buffer of the worker, unless the output still contains bytes from an earlier poll.
    #[inline]
    pub(super) fn take_buffer(&mut self, shared: &mut PooledBuffer) {
        if self.bytes.capacity() == 0 {
            std::mem::swap(&mut self.bytes, shared);
        }
    }

    /// Gives the buffer back to `shared`, and keeps a copy of the pending bytes.
    #[inline]
    pub(super) fn give_buffer_back(&mut self, shared: &mut PooledBuffer) {
        if shared.capacity() > 0 {
            // The output did not take the shared buffer, because bytes were pending after an earlier poll.
            if self.bytes.len() == self.written {
                self.bytes = PooledBuffer::default();
                self.written = 0;
            }
            return;
        }
        let waiting = &self.bytes[self.written..];
        let kept = if waiting.is_empty() { PooledBuffer::default() } else { PooledBuffer::copy_of(waiting) };
        std::mem::swap(shared, &mut self.bytes);
        shared.clear();
        self.bytes = kept;
        self.written = 0;
    }

    /// Writes until the output is empty, the transport accepts no more data, or [`FAIR_BYTES`] are written.
    /// Sets `has_moved` if any bytes were written. If no bytes were written, the task is woken when the
    /// transport accepts data.
    #[inline]
    pub(super) fn poll_write<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        has_moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        let mut fair_bytes = FAIR_BYTES;
        while !self.is_empty() {
            let bytes = &self.bytes[self.written..];
            let written = match &mut self.tail {
                Tail::Bytes(tail) => {
                    ready!(transport.poll_write(cx, &[IoSlice::new(bytes), IoSlice::new(tail)]))?
                }
                Tail::File(range) if bytes.is_empty() => ready!(poll_send_file(cx, transport, range))?,
                Tail::Piped(pipe) if bytes.is_empty() => ready!(transport.poll_splice(cx, pipe))?,
                Tail::None | Tail::File(_) | Tail::Piped(_) => {
                    ready!(transport.poll_write(cx, &[IoSlice::new(bytes)]))?
                }
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *has_moved = true;
            self.advance(written);
            fair_bytes = fair_bytes.saturating_sub(written);
            if fair_bytes == 0 && !self.is_empty() {
                return Poll::Pending;
            }
        }
        self.bytes.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        let of_bytes = written.min(self.bytes.len() - self.written);
        self.written += of_bytes;
        let of_tail = written - of_bytes;
        let is_tail_written = match &mut self.tail {
            Tail::None => false,
            Tail::Bytes(tail) => {
                drop(tail.split_to(of_tail));
                tail.is_empty()
            }
            Tail::File(range) => {
                range.offset += of_tail as u64;
                range.length -= of_tail as u64;
                range.length == 0
            }
            // A pipe updates its length when bytes are taken from it.
            Tail::Piped(pipe) => pipe.is_empty(),
        };
        if is_tail_written {
            self.tail = Tail::None;
        }
    }
}

/// Sends a part of a file. Fails if another process has shortened the file, because then the response cannot
/// be completed.
fn poll_send_file<T: Transport>(
    cx: &mut Context<'_>,
    transport: &mut T,
    range: &FileRange,
) -> Poll<io::Result<usize>> {
    let length = usize::try_from(range.length).unwrap_or(usize::MAX).min(SEND_FILE_BYTES_MAX);
    match ready!(transport.poll_send_file(cx, &range.file, range.offset, length))? {
        0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        sent => Poll::Ready(Ok(sent)),
    }
}

/// Maximum number of bytes of a file that one system call sends.
const SEND_FILE_BYTES_MAX: usize = 256 << 10;

/// Maximum number of bytes that a connection writes before other connections run.
const FAIR_BYTES: usize = 256 << 10;

/// Maximum size of a body that is copied into the output. Up to this size, a copy is cheaper than a separate
/// slice in the system call. Larger bodies are written without a copy.
pub(super) const COPY_BYTES_MAX: usize = 16 << 10;
