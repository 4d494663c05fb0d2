//! What connections have in common: octets in both directions, over sockets, TLS or memory.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::unconstrained;

use crate::buffers::PooledBuffer;
use crate::splice::{COPY_BYTES, Pipe};

/// A stream of octets in both directions, without blocking.
///
/// All methods register the task of `cx` to be woken when they return [`Poll::Pending`].
pub trait Transport: 'static {
    /// Reads into `buffer`; 0 is the end of what the peer sends.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Whether the peer has neither sent anything since nor ended, as far as this thread has heard: also of a
    /// task that has done all that it may do in one turn, in which a read is pending whatever has come. If
    /// not, what has come may be lost.
    fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(unconstrained(poll_fn(|cx| self.poll_read(cx, &mut [0])))).poll(&mut cx).is_pending()
    }

    /// Whether something may have arrived, or the end, since reading has found nothing more. As long as
    /// nothing has, whoever reading has registered then is still registered. Who cannot tell says yes.
    fn may_have_arrived(&self) -> bool {
        true
    }

    /// Writes some of `slices`; how many octets is returned. Whoever is told to wait comes again with the
    /// same octets first, or writes nothing more: a transport that transforms them may have begun.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Whether some of what was not told to be written may have left all the same: of what
    /// [`poll_write`](Self::poll_write) was given when it was pending.
    fn has_written_part(&self) -> bool {
        false
    }

    /// Writes up to `length` octets of `file` from `offset` on; how many is returned, 0 at the end of the
    /// file.
    ///
    /// # Errors
    /// The connection or the file failed.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>>;

    /// Whether nobody on the way can read or change what is sent: TLS is spoken.
    fn is_secured(&self) -> bool {
        false
    }

    /// Whether [`poll_splice`](Self::poll_splice) does without copying, so that it is worth to put octets
    /// into pipes.
    fn splices(&self) -> bool {
        false
    }

    /// Writes some of what is in `pipe`, which is not empty; how many octets is returned.
    ///
    /// # Errors
    /// The connection or the pipe failed.
    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        pipe.poll_copy_to(cx, self)
    }

    /// Moves what comes next into `pipe`, which is empty: at most `length` octets, and as many as the pipe
    /// has room for. How many is returned; 0 is the end of what the peer sends.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, length: usize) -> Poll<io::Result<usize>> {
        pipe.poll_copy_from(cx, self, length)
    }

    /// Ready when all that was written is in the hands of the system. Transports that keep nothing back say
    /// nothing.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ready when all that was written is in the hands of the system, and the peer will know that it was all,
    /// where a protocol below has words for that. To be called before a connection is dropped that has come
    /// to its end in peace; nothing is written any more.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }

    /// Tells the peer that nothing more will be written.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Lets what the peer has not taken be thrown away when the connection is closed, and the peer be told.
    fn discard_unsent(&mut self);
}

impl Pipe {
    /// Fills the pipe, which is empty, without splicing: at most `length` octets of `transport`. How many is
    /// returned.
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
        self.advance_copied(written);
        Poll::Ready(Ok(written))
    }
}

/// What was given to be written and is not yet. Owns a buffer only as long as there is something.
#[derive(Default)]
pub struct Gathered {
    octets: PooledBuffer,
    written: usize,
}

impl Gathered {
    /// Puts `octets` behind what is there.
    pub fn push(&mut self, octets: &[u8]) {
        if self.octets.capacity() == 0 {
            self.octets = PooledBuffer::take();
        }
        self.octets.extend_from_slice(octets);
    }

    /// Whether so much is there that it is to be written before there is more.
    pub fn is_full(&self) -> bool {
        self.octets.len() >= FULL_BYTES
    }

    /// Writes all that is there. `has_moved` says whether anything was written.
    ///
    /// # Errors
    /// The connection failed.
    pub fn poll_write_all<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        has_moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        while self.written < self.octets.len() {
            let waiting = IoSlice::new(&self.octets[self.written..]);
            match ready!(transport.poll_write(cx, &[waiting]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            *has_moved = true;
        }
        *self = Self::default();
        Poll::Ready(Ok(()))
    }
}

const FULL_BYTES: usize = 64 << 10;
