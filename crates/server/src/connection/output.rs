//! Octets on their way to the client.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use thruway_net::{Pipe, PooledBuffer, Transport};

use crate::response::FileRange;

/// What is to be written: octets, and behind them at most one large piece that is not copied.
#[derive(Default)]
pub(super) struct Output {
    octets: PooledBuffer,
    /// How many of the octets are written.
    written: usize,
    tail: Tail,
    /// Nothing but the end of the connection says that the last answer is complete.
    pub(super) ends_with_connection: bool,
}

/// A piece behind the octets. Nothing can be added before it is written.
#[derive(Default)]
pub(super) enum Tail {
    #[default]
    None,
    Octets(Bytes),
    File(FileRange),
    Piped(Pipe),
}

impl Output {
    /// Where to append octets, which is possible while there is no tail.
    #[inline]
    pub(super) fn octets(&mut self) -> &mut Vec<u8> {
        debug_assert!(!self.has_tail(), "what comes after the tail must wait for it");
        &mut self.octets
    }

    /// Puts `tail` behind the octets.
    pub(super) fn set_tail(&mut self, tail: Tail) {
        debug_assert!(!self.has_tail(), "what comes after the tail must wait for it");
        self.tail = tail;
    }

    /// Whether everything is written.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.octets.len() == self.written && !self.has_tail()
    }

    /// Whether more may be added: there is no tail, and less than `bytes_max` waits.
    #[inline]
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        !self.has_tail() && self.octets.len() - self.written < bytes_max
    }

    /// Whether a large piece waits behind the octets.
    pub(super) const fn has_tail(&self) -> bool {
        !matches!(self.tail, Tail::None)
    }

    /// How much of the large piece is not written.
    pub(super) fn tail_bytes(&self) -> u64 {
        match &self.tail {
            Tail::None => 0,
            Tail::Octets(octets) => octets.len() as u64,
            Tail::File(range) => range.length,
            Tail::Piped(pipe) => pipe.len() as u64,
        }
    }

    /// Uses `shared` as long as nothing waits from an earlier turn.
    #[inline]
    pub(super) fn take_buffer(&mut self, shared: &mut PooledBuffer) {
        if self.octets.capacity() == 0 {
            std::mem::swap(&mut self.octets, shared);
        }
    }

    /// Gives the buffer back to `shared`, and keeps a copy of what waits.
    #[inline]
    pub(super) fn give_buffer_back(&mut self, shared: &mut PooledBuffer) {
        if shared.capacity() > 0 {
            // What waits has had a buffer of its own since an earlier turn.
            if self.octets.len() == self.written {
                self.octets = PooledBuffer::default();
                self.written = 0;
            }
            return;
        }
        let waiting = &self.octets[self.written..];
        let kept = if waiting.is_empty() { PooledBuffer::default() } else { PooledBuffer::copy_of(waiting) };
        std::mem::swap(shared, &mut self.octets);
        shared.clear();
        self.octets = kept;
        self.written = 0;
    }

    /// Writes until everything is written, or as much as is fair. `has_moved` says whether anything was; if
    /// not, the task is woken when more can be.
    #[inline]
    pub(super) fn poll_write<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        has_moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        let mut fair_bytes = FAIR_BYTES;
        while !self.is_empty() {
            let octets = &self.octets[self.written..];
            let written = match &mut self.tail {
                Tail::Octets(tail) => {
                    ready!(transport.poll_write(cx, &[IoSlice::new(octets), IoSlice::new(tail)]))?
                }
                Tail::File(range) if octets.is_empty() => ready!(poll_send_file(cx, transport, range))?,
                Tail::Piped(pipe) if octets.is_empty() => ready!(transport.poll_splice(cx, pipe))?,
                Tail::None | Tail::File(_) | Tail::Piped(_) => {
                    ready!(transport.poll_write(cx, &[IoSlice::new(octets)]))?
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
        self.octets.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        let of_octets = written.min(self.octets.len() - self.written);
        self.written += of_octets;
        let of_tail = written - of_octets;
        let is_tail_written = match &mut self.tail {
            Tail::None => false,
            Tail::Octets(tail) => {
                drop(tail.split_to(of_tail));
                tail.is_empty()
            }
            Tail::File(range) => {
                range.offset += of_tail as u64;
                range.length -= of_tail as u64;
                range.length == 0
            }
            // It knows itself how much is in it.
            Tail::Piped(pipe) => pipe.is_empty(),
        };
        if is_tail_written {
            self.tail = Tail::None;
        }
    }
}

/// A file that has become shorter than it was is an error: the answer cannot be completed.
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

/// How much of a file one system call sends.
const SEND_FILE_BYTES_MAX: usize = 256 << 10;

/// How much one turn writes: there are other connections.
const FAIR_BYTES: usize = 256 << 10;

/// Larger content is written from where it is; up to this size one more copy is cheaper than one more slice.
pub(super) const COPY_BYTES_MAX: usize = 16 << 10;
