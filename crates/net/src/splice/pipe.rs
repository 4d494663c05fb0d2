//! Pipe that holds bytes on the way from one socket to another.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::read;
use rustix::pipe::{SpliceFlags, splice};

use super::pool::{PIPE_BYTES, PipeEnds};
use crate::buffers::PooledBuffer;
use crate::thread_state::ThreadState;

/// A pipe from the pool of this thread. Dropping an empty pipe returns it to the pool. Dropping a pipe that
/// contains bytes closes the pipe and discards the bytes.
///
/// Each thread has a limited number of pipes. If no pipe is free, connections use buffers instead.
pub struct Pipe {
    /// The descriptors of the pipe. `None` only while the pipe is dropped.
    ends: Option<PipeEnds>,
    /// Number of bytes in the kernel's pipe.
    piped: usize,
    /// Buffer for bytes that cannot be spliced. The bytes in this buffer precede the bytes in the kernel's
    /// pipe.
    copied: PooledBuffer,
    /// Number of bytes in `copied` that are already written.
    copied_written: usize,
}

impl Pipe {
    /// Returns an empty pipe. Returns `None` if too many pipes are in use, or if the kernel has refused to
    /// splice or to open a large pipe.
    pub fn take() -> Option<Self> {
        let ends = ThreadState::with(|thread| thread.pipes.borrow_mut().take())?;
        Some(Self { ends: Some(ends), piped: 0, copied: PooledBuffer::default(), copied_written: 0 })
    }

    /// Returns the number of bytes in the pipe, including copied bytes.
    pub fn len(&self) -> usize {
        self.piped + self.copied_left().len()
    }

    /// Returns `true` if the pipe holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves at most `length` received bytes from `socket` into the pipe. The pipe must be empty. Returns
    /// the number of moved bytes.
    pub(crate) fn splice_from(&mut self, socket: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
        let Some(PipeEnds { writer, .. }) = &self.ends else { return Ok(0) };
        let length = length.min(PIPE_BYTES);
        let moved = splice(socket, None, writer, None, length, SpliceFlags::MOVE | SpliceFlags::NONBLOCK)?;
        self.piped += moved;
        Ok(moved)
    }

    /// Moves as many bytes from the pipe to `socket` as the socket accepts. Returns the number of moved
    /// bytes.
    pub(crate) fn splice_to(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(PipeEnds { reader, .. }) = &self.ends else { return Ok(0) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = splice(reader, None, socket, None, self.piped, flags)?;
        self.piped -= moved.min(self.piped);
        Ok(moved)
    }

    /// Returns `true` if `copied` contains unwritten bytes. The caller must write these bytes without
    /// `splice`.
    pub(crate) fn has_copied(&self) -> bool {
        !self.copied_left().is_empty()
    }

    /// Records that `written` more bytes of `copied` are written.
    pub(crate) fn advance_copied(&mut self, written: usize) {
        self.copied_written += written;
        if !self.has_copied() {
            self.set_copied(PooledBuffer::default());
        }
    }

    /// Removes some bytes from the pipe, and returns these bytes. Callers use this function if they must
    /// read the bytes. The result is empty if the pipe is empty.
    ///
    /// # Errors
    /// Reading from the pipe failed.
    pub fn take_bytes(&mut self) -> io::Result<PooledBuffer> {
        if !self.has_copied() {
            self.copy_out()?;
        }
        let bytes = PooledBuffer::copy_of(self.copied_left());
        self.set_copied(PooledBuffer::default());
        Ok(bytes)
    }

    /// Copies some bytes from the kernel's pipe into `copied`.
    pub(crate) fn copy_out(&mut self) -> io::Result<()> {
        let Some(PipeEnds { reader, .. }) = &self.ends else { return Ok(()) };
        let mut copied = PooledBuffer::take();
        copied.resize(self.piped.min(COPY_BYTES), 0);
        let read = read(reader, &mut copied[..])?;
        copied.truncate(read);
        self.piped -= read;
        self.set_copied(copied);
        Ok(())
    }

    /// Replaces the read end of the pipe with a socket that returns the same bytes, so that splicing fails.
    #[cfg(test)]
    pub(super) fn put_a_socket_before_its_reader(&mut self) {
        let (socket, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let PipeEnds { reader, .. } = self.ends.as_mut().unwrap();
        let mut bytes = vec![0; self.piped];
        let length = read(&*reader, &mut bytes[..]).unwrap();
        assert_eq!((length, rustix::io::write(other, &bytes).unwrap()), (self.piped, self.piped));
        *reader = socket.into();
    }

    /// Replaces the buffer of copied bytes.
    pub(crate) fn set_copied(&mut self, copied: PooledBuffer) {
        self.copied = copied;
        self.copied_written = 0;
    }

    /// Returns the copied bytes that are not written yet.
    pub(crate) fn copied_left(&self) -> &[u8] {
        &self.copied[self.copied_written..]
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            let is_empty = self.piped == 0;
            // While the thread ends, the pool no longer exists, so the pipe is closed instead.
            ThreadState::try_with(|thread| thread.pipes.borrow_mut().give_back(ends, is_empty));
        }
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Number of bytes copied at a time if splicing fails. The buffer pool keeps buffers of up to this size.
pub(crate) const COPY_BYTES: usize = 64 << 10;
