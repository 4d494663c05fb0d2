//! A pipe with octets in it, on their way from one socket to another.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::read;
use rustix::pipe::{SpliceFlags, splice};

use super::pool::{Ends, PIPE_BYTES};
use crate::buffers::PooledBuffer;
use crate::thread_state::ThreadState;

/// A pipe from the pool of this thread, and how many octets are in it. Goes back there when it is dropped
/// empty; otherwise it is closed, and what was in it is lost.
///
/// There are only so many for each thread; whoever gets none does with buffers.
pub struct Pipe {
    /// There until it is dropped.
    ends: Option<Ends>,
    /// How many octets the kernel's pipe holds.
    piped: usize,
    /// Octets that could not be spliced; they come before those in the pipe.
    copied: PooledBuffer,
    /// How many of those are written.
    copied_written: usize,
}

impl Pipe {
    /// An empty pipe, unless too many are in use or the kernel has refused to splice before.
    pub fn take() -> Option<Self> {
        let ends = ThreadState::with(|thread| thread.pipes.borrow_mut().take())?;
        Some(Self { ends: Some(ends), piped: 0, copied: PooledBuffer::default(), copied_written: 0 })
    }

    /// How many octets are in it.
    pub fn len(&self) -> usize {
        self.piped + self.copied_left().len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves at most `length` octets that `socket` has received into the pipe, which is empty.
    pub(crate) fn splice_from(&mut self, socket: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
        let Some(Ends { writer, .. }) = &self.ends else { return Ok(0) };
        let length = length.min(PIPE_BYTES);
        let moved = splice(socket, None, writer, None, length, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)?;
        self.piped += moved;
        Ok(moved)
    }

    /// Moves what is in the pipe to `socket`, as much as that takes.
    pub(crate) fn splice_to(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(Ends { reader, .. }) = &self.ends else { return Ok(0) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = splice(reader, None, socket, None, self.piped, flags)?;
        self.piped -= moved.min(self.piped);
        Ok(moved)
    }

    /// Whether octets are in it that were copied, and have to be written as such.
    pub(crate) fn has_copied(&self) -> bool {
        !self.copied_left().is_empty()
    }

    /// Counts octets that could not be spliced as written.
    pub(crate) fn advance_copied(&mut self, written: usize) {
        self.copied_written += written;
        if !self.has_copied() {
            self.set_copied(PooledBuffer::default());
        }
    }

    /// Takes some of what is in it out, for whoever needs octets after all; nothing if it is empty.
    ///
    /// # Errors
    /// The pipe failed.
    pub fn take_octets(&mut self) -> io::Result<PooledBuffer> {
        if !self.has_copied() {
            self.copy_out()?;
        }
        let octets = PooledBuffer::copy_of(self.copied_left());
        self.set_copied(PooledBuffer::default());
        Ok(octets)
    }

    /// Takes some of what is in the kernel's pipe out of it.
    pub(crate) fn copy_out(&mut self) -> io::Result<()> {
        let Some(Ends { reader, .. }) = &self.ends else { return Ok(()) };
        let mut copied = PooledBuffer::take();
        copied.resize(self.piped.min(COPY_BYTES), 0);
        let read = read(reader, &mut copied[..])?;
        copied.truncate(read);
        self.piped -= read;
        self.set_copied(copied);
        Ok(())
    }

    /// Puts what is in it where nothing can be spliced from.
    #[cfg(test)]
    pub(super) fn put_a_socket_before_its_reader(&mut self) {
        let (socket, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let Ends { reader, .. } = self.ends.as_mut().unwrap();
        let mut octets = vec![0; self.piped];
        let length = read(&*reader, &mut octets[..]).unwrap();
        assert_eq!((length, rustix::io::write(other, &octets).unwrap()), (self.piped, self.piped));
        *reader = socket.into();
    }

    /// Replaces the octets that could not be spliced.
    pub(crate) fn set_copied(&mut self, copied: PooledBuffer) {
        self.copied = copied;
        self.copied_written = 0;
    }

    /// The octets that could not be spliced and are not written.
    pub(crate) fn copied_left(&self) -> &[u8] {
        &self.copied[self.copied_written..]
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            let is_empty = self.piped == 0;
            // While the thread ends there is no pool any more; then the pipe is closed.
            ThreadState::try_with(|thread| thread.pipes.borrow_mut().give_back(ends, is_empty));
        }
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// What is copied at a time where nothing can be spliced: as much as a buffer may have to be used again.
pub(crate) const COPY_BYTES: usize = 64 << 10;
