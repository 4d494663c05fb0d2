//! One direction of a tunnel: forwards bytes from one connection to another.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::pipe::Pipe;
use super::pool::PIPE_BYTES;
use crate::buffers::PooledBuffer;
use crate::transport::Transport;

/// Moves bytes from one stream to another, as fast as the destination accepts them. A tunnel consists of
/// two flows, one for each direction. The task of the tunnel polls both flows.
///
/// A flow without pending bytes holds neither a pipe nor a buffer.
#[derive(Debug, Default)]
pub struct Flow {
    storage: Storage,
    moved_bytes: u64,
    /// `true` if the last read returned `BUFFER_BYTES` bytes or more. More data is then likely, so the next
    /// read uses a pipe. A pipe needs more system calls than a buffer, but avoids copies.
    is_bulk: bool,
    state: State,
}

/// Storage for bytes that were read and are not written yet.
#[derive(Debug, Default)]
pub(super) enum Storage {
    #[default]
    None,
    Pipe(Pipe),
    /// A buffer, and the number of bytes in the buffer that are already written.
    Buffer(PooledBuffer, usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Moves,
    /// The source has ended. The flow shuts down the write side of the destination next.
    Ending,
    Ended,
}

impl Flow {
    /// Creates a flow that first writes `early`: bytes that were already read from the source.
    pub fn behind(early: PooledBuffer) -> Self {
        let storage = if early.is_empty() { Storage::None } else { Storage::Buffer(early, 0) };
        Self { storage, ..Self::default() }
    }

    /// Returns the number of bytes written to the destination.
    pub const fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Returns `true` if the flow has ended.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    #[cfg(test)]
    pub(super) const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Moves the available bytes, but only about 1 MiB in one poll. Ready when `from` has ended, `to` has
    /// accepted all bytes, and the write side of `to` is shut down.
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
            while !matches!(self.storage, Storage::None) {
                ready!(self.poll_write(cx, to))?;
                if self.moved_bytes >= fair_end {
                    // Yields, so that other tasks of this thread can run.
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

    /// Reads into a pipe if much data is likely and both connections support `splice`. Otherwise reads into
    /// a buffer. Keeps the pipe or buffer only if the read returned data.
    fn poll_read<F: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to_splices: bool,
    ) -> Poll<io::Result<()>> {
        let pipe = (self.is_bulk && to_splices && from.splices()).then(Pipe::take).flatten();
        let read = if let Some(mut pipe) = pipe {
            let read = ready!(from.poll_fill(cx, &mut pipe, PIPE_BYTES))?;
            self.storage = Storage::Pipe(pipe);
            read
        } else {
            let mut buffer = PooledBuffer::take();
            buffer.resize(if self.is_bulk { BULK_BYTES } else { BUFFER_BYTES }, 0);
            let read = ready!(from.poll_read(cx, &mut buffer))?;
            buffer.truncate(read);
            self.storage = Storage::Buffer(buffer, 0);
            read
        };
        self.is_bulk = read >= BUFFER_BYTES;
        if read == 0 {
            self.storage = Storage::None;
            self.state = State::Ending;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes some of the pending bytes to `to`. Releases the pipe or buffer when all pending bytes are
    /// written.
    fn poll_write<T: Transport>(&mut self, cx: &mut Context<'_>, to: &mut T) -> Poll<io::Result<()>> {
        let (written, is_all) = match &mut self.storage {
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
            self.storage = Storage::None;
        }
        Poll::Ready(Ok(()))
    }
}

/// Number of bytes after which one poll stops, so that other connections of the thread are served too.
const FAIR_BYTES: u64 = 1 << 20;

/// Number of bytes read at a time into a buffer. A batch of sends accepts a write of this size, but not a
/// larger write.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// Number of bytes read at a time if much data is likely but no pipe is available.
const BULK_BYTES: usize = 64 << 10;
