//! One direction between two connections that are no protocol's any more.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::pipe::Pipe;
use super::pool::PIPE_BYTES;
use crate::buffers::PooledBuffer;
use crate::transport::Transport;

/// Octets on their way from one stream to another, as fast as that takes them. A tunnel has two, one for each
/// direction, and polls both in one task.
///
/// While nothing is on its way it holds neither pipe nor buffer.
#[derive(Debug, Default)]
pub struct Flow {
    carrier: Carrier,
    moved_bytes: u64,
    /// Whether what was read last was as much as a buffer holds: then there is more, and pipes are worth
    /// their system calls.
    is_bulk: bool,
    state: State,
}

/// What holds the octets that were read and not written.
#[derive(Debug, Default)]
pub(super) enum Carrier {
    #[default]
    None,
    Pipe(Pipe),
    /// So many octets of the buffer are written.
    Buffer(PooledBuffer, usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Moves,
    /// The source has said all, which the other is told when it has got it.
    Ending,
    Ended,
}

impl Flow {
    /// A flow that begins with octets that came from the source before.
    pub fn behind(early: PooledBuffer) -> Self {
        let carrier = if early.is_empty() { Carrier::None } else { Carrier::Buffer(early, 0) };
        Self { carrier, ..Self::default() }
    }

    /// How many octets were written.
    pub const fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Whether nothing more will move.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    #[cfg(test)]
    pub(super) const fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Moves what there is, or as much as is fair. Ready when `from` has said all, and `to` has got it and
    /// been told so.
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
            while !matches!(self.carrier, Carrier::None) {
                ready!(self.poll_write(cx, to))?;
                if self.moved_bytes >= fair_end {
                    // Others want their turn too.
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

    /// Reads into a buffer, or into a pipe where there is much and both sides splice. It is kept only if
    /// something came.
    fn poll_read<F: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut F,
        to_splices: bool,
    ) -> Poll<io::Result<()>> {
        let pipe = (self.is_bulk && to_splices && from.splices()).then(Pipe::take).flatten();
        let read = if let Some(mut pipe) = pipe {
            let read = ready!(from.poll_fill(cx, &mut pipe, PIPE_BYTES))?;
            self.carrier = Carrier::Pipe(pipe);
            read
        } else {
            let mut buffer = PooledBuffer::take();
            buffer.resize(if self.is_bulk { BULK_BYTES } else { BUFFER_BYTES }, 0);
            let read = ready!(from.poll_read(cx, &mut buffer))?;
            buffer.truncate(read);
            self.carrier = Carrier::Buffer(buffer, 0);
            read
        };
        self.is_bulk = read >= BUFFER_BYTES;
        if read == 0 {
            self.carrier = Carrier::None;
            self.state = State::Ending;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes some of what was read, and lets go of what held it when all of it is written.
    fn poll_write<T: Transport>(&mut self, cx: &mut Context<'_>, to: &mut T) -> Poll<io::Result<()>> {
        let (written, is_all) = match &mut self.carrier {
            Carrier::None => return Poll::Ready(Ok(())),
            Carrier::Pipe(pipe) => (ready!(to.poll_splice(cx, pipe))?, pipe.is_empty()),
            Carrier::Buffer(buffer, start) => {
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
            self.carrier = Carrier::None;
        }
        Poll::Ready(Ok(()))
    }
}

/// How much one poll moves: there are other connections.
const FAIR_BYTES: u64 = 1 << 20;

/// What is read at a time. Messages that are smaller are put together with others and sent in one system call
/// for all.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// What is read at a time where there is more, and no pipe.
const BULK_BYTES: usize = 64 << 10;
