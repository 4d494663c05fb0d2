//! The pool of pipes of a thread.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The two ends of a pipe.
#[derive(Debug)]
pub(super) struct PipeEnds {
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
}

/// Opens a pipe of the preferred size or of half that size. Returns `None` if the pipe would be smaller. The
/// kernel limits pipe memory for each user (`pipe-user-pages-soft`) and above the limit, new pipes are small.
/// At 64 KiB, a pipe costs more than a buffer.
fn open() -> io::Result<Option<PipeEnds>> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let sized = [PIPE_BYTES, PIPE_BYTES / 2].iter().any(|bytes| fcntl_setpipe_size(&writer, *bytes).is_ok());
    Ok(sized.then_some(PipeEnds { reader, writer }))
}

/// The pipes of one thread.
#[derive(Debug)]
pub(crate) struct PipePool {
    free: Vec<PipeEnds>,
    in_use: usize,
    /// Number of requests to skip before a new pipe is tried again.
    pause: u32,
    is_refused: bool,
}

impl PipePool {
    pub(crate) const fn new() -> Self {
        Self { free: Vec::new(), in_use: 0, pause: 0, is_refused: false }
    }

    /// Returns the ends of an empty pipe. Returns `None` if too many are in use, or if the kernel refuses
    /// large pipes.
    pub(super) fn take(&mut self) -> Option<PipeEnds> {
        if self.is_refused || self.in_use >= PIPES_MAX {
            return None;
        }
        let ends = self.free.pop().or_else(|| self.open())?;
        self.in_use += 1;
        Some(ends)
    }

    /// Takes a pipe back. A pipe that is not empty is closed.
    pub(super) fn give_back(&mut self, ends: PipeEnds, is_empty: bool) {
        self.in_use = self.in_use.saturating_sub(1);
        if is_empty && self.free.len() < PIPES_KEPT {
            self.free.push(ends);
        }
    }

    /// Disables the pool, because the kernel does not splice.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
        self.free.clear();
    }

    /// Opens a new pipe. After the kernel refused one, the next `PAUSE` calls return `None` without a system
    /// call.
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

/// Size of a pipe, and maximum number of bytes moved at a time. A smaller size is slower. A larger size lets
/// slow clients hold more memory.
pub(super) const PIPE_BYTES: usize = 512 << 10;

/// Maximum number of pipes in use by a thread: clients that stop reading can hold 128 descriptors and 32 MiB.
pub(super) const PIPES_MAX: usize = 64;

/// Maximum number of pipes that the pool keeps.
pub(super) const PIPES_KEPT: usize = 32;

/// Number of requests for a pipe that are skipped after the kernel refused one.
const PAUSE: u32 = 1000;

#[cfg(test)]
pub(super) mod faults {
    use std::os::unix::net::UnixStream;

    use super::PipeEnds;
    use crate::thread_state::ThreadState;

    /// Makes the next pipe a pair of sockets. Splicing to it fails, because the kernel requires a pipe on one
    /// side.
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
