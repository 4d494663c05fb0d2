//! One direction of a tunnel between two connections.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::pipe::Pipe;
use super::pool::PIPE_BYTES;
use crate::buffers::PooledBuffer;
use crate::transport::Transport;

/// Moves bytes from one stream to another, as fast as the destination takes them. A tunnel has two flows, one
/// for each direction, and polls both in one task.
///
/// A flow without pending bytes holds neither a pipe nor a buffer.
#[derive(Debug, Default)]
pub struct Flow {
    carrier: Storage,
    moved_bytes: u64,
    /// `true` if the last read filled a buffer. More data is likely then, and a pipe is worth its system
    /// calls.
    is_bulk: bool,
    state: State,
}

/// The storage of the bytes that were read and are not written yet.
#[derive(Debug, Default)]
pub(super) enum Storage {
    #[default]
    None,
    Pipe(Pipe),
    /// A buffer, and the number of its bytes that are already written.
    Buffer(PooledBuffer, usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Moves,
    /// The source has ended. The write side of the destination is shut down after the remaining bytes.
    Ending,
    Ended,
}

impl Flow {
    /// Creates a flow that starts with bytes that the source sent earlier.
    pub fn behind(early: PooledBuffer) -> Self {
        let carrier = if early.is_empty() { Storage::None } else { Storage::Buffer(early, 0) };
        Self { carrier, ..Self::default() }
    }

    /// Returns the number of bytes that were written.
    pub const fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Returns `true` if the flow has ended.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    #[cfg(test)]
    pub(super) const fn carrier(&self) -> &Storage {
        &self.carrier
    }

    /// Moves the available bytes, at most 1 MiB in one poll. Ready when `from` has ended, `to` has taken all
    /// bytes, and the writing side of `to` is shut down.
    ///
    /// # Errors
    /// One of the connections failed.
    pub fn poll<F: Transport, T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
    ) -> Poll<io::Result<()>> {
        let fair_end = self.moved_bytes + FAIR_BYTES;
        loop {
            while !matches!(self.carrier, Storage::None) {
                ready!(self.poll_write(cx, to))?;
                if self.moved_bytes >= fair_end {
                    // Other tasks must run too.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            match self.state {
                State::Moves => ready!(self.poll_read(cx, from, to.splices()))?,
                State::Ending => {
                    ready!(to.poll_shutdown(cx))?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads into a pipe if much data is available and both sides splice, and otherwise into a buffer. Keeps
    /// the pipe or buffer only if the read returned data.
    fn poll_read<F: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to_splices: bool,
    ) -> Poll<io::Result<()>> {
        let pipe = (self.is_bulk && to_splices && from.splices()).then(Pipe::take).flatten();
        let read = if let Some(mut pipe) = pipe {
            let read = ready!(from.poll_fill(cx, &mut pipe, PIPE_BYTES))?;
            self.carrier = Storage::Pipe(pipe);
            read
        } else {
            let mut buffer = PooledBuffer::take();
            buffer.resize(if self.is_bulk { BULK_BYTES } else { BUFFER_BYTES }, 0);
            let read = ready!(from.poll_read(cx, &mut buffer))?;
            buffer.truncate(read);
            self.carrier = Storage::Buffer(buffer, 0);
            read
        };
        self.is_bulk = read >= BUFFER_BYTES;
        if read == 0 {
            self.carrier = Storage::None;
            self.state = State::Ending;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes some of the pending bytes. Releases the pipe or buffer when all of them are written.
    fn poll_write<T: Transport>(&mut self, cx: &mut Context<'_>, to: &mut T) -> Poll<io::Result<()>> {
        let (written, is_all) = match &mut self.carrier {
            Storage::None => return Poll::Ready(Ok(())),
            Storage::Pipe(pipe) => (ready!(to.poll_splice(cx, pipe))?, pipe.is_empty()),
            Storage::Buffer(buffer, start) => {
                let written = ready!(to.poll_write(cx, &[IoSlice::new(&buffer[*start..])]))?;
                *start += written;
                (written, *start == buffer.len())
            }
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.moved_bytes += written as u64;
        if is_all {
            self.carrier = Storage::None;
        }
        Poll::Ready(Ok(()))
    }
}

/// Maximum number of bytes that one poll moves, so that other connections get their share.
const FAIR_BYTES: u64 = 1 << 20;

/// Number of bytes read at a time. Smaller messages are batched with others and sent in one system call.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// Number of bytes read at a time if more data is available and no pipe is free.
const BULK_BYTES: usize = 64 << 10;
