//! The pipes of a thread.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// The two ends of a pipe.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
}

/// The ends of an empty pipe, unless this thread has too many or the kernel gives no more that are large enough.
pub(super) fn take() -> Option<Ends> {
    POOL.with_borrow_mut(|pool| {
        if pool.is_refused || pool.in_use >= PIPES_MAX {
            return None;
        }
        let ends = pool.free.pop().or_else(|| pool.open())?;
        pool.in_use += 1;
        Some(ends)
    })
}

/// Takes a pipe back; one that is not empty is closed.
pub(super) fn give_back(ends: Ends, is_empty: bool) {
    // While the thread ends there is no pool any more; then the pipe is closed.
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        pool.in_use = pool.in_use.saturating_sub(1);
        if is_empty && pool.free.len() < PIPES_KEPT {
            pool.free.push(ends);
        }
    });
}

/// The kernel does not splice for this thread: there is no sense in trying again.
#[cold]
pub(super) fn refuse(error: &io::Error) {
    tracing::info!(%error, "the kernel does not splice; content is copied");
    POOL.with_borrow_mut(|pool| {
        pool.is_refused = true;
        pool.free.clear();
    });
}

/// A pipe of the size we like, or of half of it. None of less: users get small ones who have much in pipes already
/// (`pipe-user-pages-soft`), and with 64 KiB a pipe costs more than a buffer does.
fn open() -> io::Result<Option<Ends>> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let sized = [PIPE_BYTES, PIPE_BYTES / 2].iter().any(|bytes| fcntl_setpipe_size(&writer, *bytes).is_ok());
    Ok(sized.then_some(Ends { reader, writer }))
}

#[derive(Debug, Default)]
struct Pool {
    free: Vec<Ends>,
    in_use: usize,
    /// How many more do without before a new pipe is tried again.
    pause: u32,
    is_refused: bool,
}

impl Pool {
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

thread_local! {
    static POOL: RefCell<Pool> =
        const { RefCell::new(Pool { free: Vec::new(), in_use: 0, pause: 0, is_refused: false }) };
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

    use super::{Ends, POOL};

    /// Has the next pipe be one that nothing can be spliced to: the kernel wants a pipe on one side.
    pub(in super::super) fn put_sockets_instead_of_a_pipe() {
        let (reader, writer) = UnixStream::pair().unwrap();
        let ends = Ends { reader: reader.into(), writer: writer.into() };
        POOL.with_borrow_mut(|pool| pool.free.push(ends));
    }

    /// How many wait to be used again.
    pub(in super::super) fn kept() -> usize {
        POOL.with_borrow(|pool| pool.free.len())
    }
}
