//! Pool of the pipes of one thread.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The two descriptors of a pipe.
#[derive(Debug)]
pub(super) struct PipeEnds {
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
}

/// Opens a pipe of `PIPE_BYTES` or half that size. Returns `None` if the kernel allows only a smaller pipe.
/// The kernel limits the pipe memory of each user (`pipe-user-pages-soft`). Beyond this limit, new pipes
/// are small. A pipe of 64 KiB is slower than a buffer.
fn open() -> io::Result<Option<PipeEnds>> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let sized = [PIPE_BYTES, PIPE_BYTES / 2].iter().any(|bytes| fcntl_setpipe_size(&writer, *bytes).is_ok());
    Ok(sized.then_some(PipeEnds { reader, writer }))
}

/// Pool of the pipes of one thread.
#[derive(Debug)]
pub(crate) struct PipePool {
    free: Vec<PipeEnds>,
    in_use: usize,
    /// Number of attempts to skip before the pool tries again to open a pipe.
    pause: u32,
    is_refused: bool,
}

impl PipePool {
    pub(crate) const fn new() -> Self {
        Self { free: Vec::new(), in_use: 0, pause: 0, is_refused: false }
    }

    /// Returns an empty pipe. Returns `None` if too many pipes are in use, or if the kernel refuses to
    /// splice or to open a large pipe.
    pub(super) fn take(&mut self) -> Option<PipeEnds> {
        if self.is_refused || self.in_use >= PIPES_MAX {
            return None;
        }
        let ends = self.free.pop().or_else(|| self.open())?;
        self.in_use += 1;
        Some(ends)
    }

    /// Returns an empty pipe to the pool. Closes the pipe if it is not empty or if the pool is full.
    pub(super) fn give_back(&mut self, ends: PipeEnds, is_empty: bool) {
        self.in_use = self.in_use.saturating_sub(1);
        if is_empty && self.free.len() < PIPES_KEPT {
            self.free.push(ends);
        }
    }

    /// Disables the pool after the kernel has refused to splice.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
        self.free.clear();
    }

    /// Opens a new pipe. After the kernel has refused a pipe, about `PAUSE` calls return `None` without a
    /// system call.
    fn open(&mut self) -> Option<PipeEnds> {
        self.pause = self.pause.saturating_sub(1);
        if self.pause > 0 {
            return None;
        }
        let ends = open().ok().flatten();
        if ends.is_none() {
            self.pause = PAUSE;
        }
        ends
    }
}

/// Size of a pipe, in bytes. One call moves at most this number of bytes. A smaller pipe is slower. With
/// larger pipes, slow clients would hold more memory.
pub(super) const PIPE_BYTES: usize = 512 << 10;

/// Maximum number of pipes in use by a thread. In each thread, the pipes for clients that stop reading use
/// at most 128 descriptors and 32 MiB of memory.
pub(super) const PIPES_MAX: usize = 64;

/// Maximum number of free pipes in the pool.
pub(super) const PIPES_KEPT: usize = 32;

/// After the kernel has refused to open a pipe, the pool skips about this number of attempts.
const PAUSE: u32 = 1000;

#[cfg(test)]
pub(super) mod faults {
    use std::os::unix::net::UnixStream;

    use super::PipeEnds;
    use crate::thread_state::ThreadState;

    /// Makes the next pipe a pair of sockets. Splicing between sockets fails, because the kernel requires a
    /// pipe on one side.
    pub(in super::super) fn put_sockets_instead_of_a_pipe() {
        let (reader, writer) = UnixStream::pair().unwrap();
        let ends = PipeEnds { reader: reader.into(), writer: writer.into() };
        ThreadState::with(|thread| thread.pipes.borrow_mut().free.push(ends));
    }

    /// Returns the number of pipes in the pool.
    pub(in super::super) fn kept() -> usize {
        ThreadState::with(|thread| thread.pipes.borrow().free.len())
    }
}
