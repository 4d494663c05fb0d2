//! A connected socket, and what it was given to send.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::sends::{Ahead, Outbox};

/// A socket that the reactor of a thread watches.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) kind: Kind,
    pub(crate) outbox: Outbox,
    /// Is dropped with it.
    held: OnceLock<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection of a Unix domain socket.
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self { kind, outbox: Outbox::default(), held: OnceLock::new() })
    }

    /// Keeps `held` until it is closed. It keeps one thing.
    pub(crate) fn hold(&self, held: Box<dyn Any + Send + Sync>) {
        let is_first = self.held.set(held).is_ok();
        debug_assert!(is_first, "something is held already");
    }

    /// Takes the socket from the reactor of this thread.
    pub(crate) fn into_owned_fd(self) -> io::Result<OwnedFd> {
        match self.kind {
            Kind::Tcp(stream) => stream.into_std().map(OwnedFd::from),
            Kind::Unix(stream) => stream.into_std().map(OwnedFd::from),
        }
    }

    /// Does `operation` on `wanted` octets when the socket is ready for it. How many there were is returned.
    ///
    /// If it were fewer, the socket has no more: that is remembered, which saves the call that would find
    /// out.
    #[inline]
    pub(crate) fn poll_io(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        wanted: usize,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx, interest))?;
            let mut done = None;
            let attempt = self.try_io(interest, || {
                let count = operation(self.as_fd())?;
                done = Some(count);
                if 0 < count && count < wanted { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match (done, attempt) {
                (Some(count), _) => return Poll::Ready(Ok(count)),
                (None, Err(error)) if is_passing(&error) => {}
                (None, attempt) => return Poll::Ready(attempt.map(|()| 0)),
            }
        }
    }

    /// Whether nothing is there to be read, not even the end. What tokio lets a task do in one turn does not
    /// count here: nobody waits.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        let attempt = self.try_io(Interest::READABLE, || {
            recv(self.as_fd(), &mut [0], RecvFlags::PEEK)?;
            Ok(())
        });
        attempt.is_err_and(|error| is_passing(&error))
    }

    /// Whether the reactor has heard of something to read since the last operation found nothing more.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        let mut is_readable = false;
        // Nothing is tried: what would be is called only if the reactor has heard of something.
        let _ = self.try_io(Interest::READABLE, || {
            is_readable = true;
            Ok(())
        });
        is_readable
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        match (&self.kind, interest.is_readable()) {
            (Kind::Tcp(stream), true) => stream.poll_read_ready(cx),
            (Kind::Tcp(stream), false) => stream.poll_write_ready(cx),
            (Kind::Unix(stream), true) => stream.poll_read_ready(cx),
            (Kind::Unix(stream), false) => stream.poll_write_ready(cx),
        }
    }

    fn try_io(&self, interest: Interest, operation: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(stream) => stream.try_io(interest, operation),
            Kind::Unix(stream) => stream.try_io(interest, operation),
        }
    }

    /// Nobody knows what became of what was in the batch: whoever reads is told too.
    pub(crate) fn give_up(&self) {
        self.fail(Errno::CANCELED);
        // Fails if the connection has failed.
        let _ = shutdown(self, Shutdown::Read);
    }

    /// Nothing that was given is sent any more.
    pub(crate) fn discard_unsent(&self) {
        if self.outbox.ahead() == Ahead::Nothing { self.reset_at_close() } else { self.fail(Errno::CANCELED) }
    }

    /// Octets were lost: nothing more is sent, and nobody must take the end of the connection for that of
    /// what was said.
    pub(crate) fn fail(&self, error: Errno) {
        self.outbox.set_failed(error);
        self.reset_at_close();
    }

    fn reset_at_close(&self) {
        if let Kind::Tcp(stream) = &self.kind {
            // Fails if the connection has failed: then nothing is kept either.
            let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }
}

/// Whether it is as if nothing had been tried.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(stream) => stream.as_fd(),
            Kind::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
