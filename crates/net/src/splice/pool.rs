//! The pipes that a thread uses again.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The two ends of a pipe.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
}

/// A pipe of the size we like, or of half of it. None of less: users get small ones who have much in pipes
/// already (`pipe-user-pages-soft`), and with 64 KiB a pipe costs more than a buffer does.
fn open() -> io::Result<Option<Ends>> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let sized = [PIPE_BYTES, PIPE_BYTES / 2].iter().any(|bytes| fcntl_setpipe_size(&writer, *bytes).is_ok());
    Ok(sized.then_some(Ends { reader, writer }))
}

/// The pipes of one thread.
#[derive(Debug)]
pub(crate) struct PipePool {
    free: Vec<Ends>,
    in_use: usize,
    /// How many more do without before a new pipe is tried again.
    pause: u32,
    is_refused: bool,
}

impl PipePool {
    pub(crate) const fn new() -> Self {
        Self { free: Vec::new(), in_use: 0, pause: 0, is_refused: false }
    }

    /// The ends of an empty pipe, unless too many are in use or the kernel gives no more that are large
    /// enough.
    pub(super) fn take(&mut self) -> Option<Ends> {
        if self.is_refused || self.in_use >= PIPES_MAX {
            return None;
        }
        let ends = self.free.pop().or_else(|| self.open())?;
        self.in_use += 1;
        Some(ends)
    }

    /// Takes a pipe back; one that is not empty is closed.
    pub(super) fn give_back(&mut self, ends: Ends, is_empty: bool) {
        self.in_use = self.in_use.saturating_sub(1);
        if is_empty && self.free.len() < PIPES_KEPT {
            self.free.push(ends);
        }
    }

    /// The kernel does not splice: no pipe is given from now on.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
        self.free.clear();
    }

    /// A new pipe. Where there are none to be had, most who ask are told so without asking the kernel.
    fn open(&mut self) -> Option<Ends> {
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

/// How large a pipe is, and how much is moved at a time. Less is slower, more lets slow clients hold more.
pub(super) const PIPE_BYTES: usize = 512 << 10;

/// What clients that stop reading may hold for each thread: 128 descriptors and 32 MiB.
pub(super) const PIPES_MAX: usize = 64;

/// How many wait to be used again.
pub(super) const PIPES_KEPT: usize = 32;

/// How many do without a pipe after the kernel gave none.
const PAUSE: u32 = 1000;

#[cfg(test)]
pub(super) mod faults {
    use std::os::unix::net::UnixStream;

    use super::Ends;
    use crate::thread_state::ThreadState;

    /// Has the next pipe be one that nothing can be spliced to: the kernel wants a pipe on one side.
    pub(in super::super) fn put_sockets_instead_of_a_pipe() {
        let (reader, writer) = UnixStream::pair().unwrap();
        let ends = Ends { reader: reader.into(), writer: writer.into() };
        ThreadState::with(|thread| thread.pipes.borrow_mut().free.push(ends));
    }

    /// How many wait to be used again.
    pub(in super::super) fn kept() -> usize {
        ThreadState::with(|thread| thread.pipes.borrow().free.len())
    }
}
