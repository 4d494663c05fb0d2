//! A pipe with octets in it, on their way from one socket to another.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll, ready};

use rustix::io::{Errno, read};
use rustix::pipe::{SpliceFlags, splice};

use super::pool::{self, Ends, PIPE_BYTES};
use crate::{PooledBuffer, Stream, Transport};

/// A pipe from the pool of this thread, and how many octets are in it. Goes back there when it is dropped empty; otherwise
/// it is closed, and what was in it is lost.
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
        let ends = pool::take()?;
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

    /// Fills the pipe, which is empty, without splicing: at most `length` octets of `transport`. How many is returned.
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

    /// Empties the pipe without splicing: for transports that are no sockets, and where the kernel refuses.
    pub(crate) fn poll_copy_to<T: Transport + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
    ) -> Poll<io::Result<usize>> {
        if !self.has_copied() {
            self.copy_out()?;
        }
        let written = ready!(transport.poll_write(cx, &[IoSlice::new(self.copied_left())]))?;
        self.copied_written += written;
        if !self.has_copied() {
            self.set_copied(PooledBuffer::default());
        }
        Poll::Ready(Ok(written))
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
    fn copy_out(&mut self) -> io::Result<()> {
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

    fn set_copied(&mut self, copied: PooledBuffer) {
        self.copied = copied;
        self.copied_written = 0;
    }

    fn copied_left(&self) -> &[u8] {
        &self.copied[self.copied_written..]
    }
}

impl Stream {
    /// What [`Transport::poll_fill`] is for sockets.
    pub(crate) fn poll_splice_from(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(pipe.is_empty(), "a pipe that is full and a socket without octets would look the same");
        match ready!(self.poll_try_read(cx, |socket| pipe.splice_from(socket, length))) {
            Err(error) if is_refusal(&error) => {
                pool::refuse(&error);
                pipe.poll_copy_from(cx, self, length)
            }
            outcome => Poll::Ready(outcome),
        }
    }

    /// What [`Transport::poll_splice`] is for sockets.
    pub(crate) fn poll_empty(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        if !pipe.has_copied() {
            match ready!(self.poll_try_write(cx, |socket| pipe.splice_to(socket))) {
                Err(error) if is_refusal(&error) => pool::refuse(&error),
                outcome => return Poll::Ready(outcome),
            }
        }
        pipe.poll_copy_to(cx, self)
    }
}

/// Whether the kernel, or what filters its calls, does not splice, or not with such a descriptor.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP];
    Errno::from_io_error(error).is_some_and(|error| refusals.contains(&error))
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            pool::give_back(ends, self.piped == 0);
        }
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// What is copied at a time where nothing can be spliced: as much as a buffer may have to be used again.
const COPY_BYTES: usize = 64 << 10;
