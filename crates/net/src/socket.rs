//! A connected socket, and what it was given to send.

use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::sends::{self, Ahead, Outbox};

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
    /// If it were fewer, the socket has no more: that is remembered, which saves the call that would find out.
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

    /// Whether nothing is there to be read, not even the end. What tokio lets a task do in one turn does not count here: nobody waits.
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

    /// Ready when nothing is ahead of the next octets.
    ///
    /// # Errors
    /// What was given before could not be sent.
    #[inline]
    pub(crate) fn poll_clear(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.ahead() == Ahead::Nothing { Poll::Ready(Ok(())) } else { self.poll_clear_slowly(cx) }
    }

    #[cold]
    fn poll_clear_slowly(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.ahead() == Ahead::Queued {
            sends::flush();
        }
        match self.outbox.ahead() {
            Ahead::Nothing => Poll::Ready(Ok(())),
            Ahead::Failed => Poll::Ready(Err(self.outbox.error().into())),
            Ahead::Unsent => self.outbox.poll_sent(cx).map(Ok),
            Ahead::Queued => {
                // On another thread, which is about to send it.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// The same, but what is in the batch stays there until that is sent.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.ahead() == Ahead::Queued {
            // What sends the batch was woken before and comes first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.poll_clear(cx)
    }

    /// What became of `octets` that were in the batch.
    #[inline]
    pub(crate) fn handle_sent(socket: &Arc<Self>, octets: &[u8], outcome: Result<usize, Errno>) {
        match outcome {
            // It was discarded meanwhile.
            _ if socket.outbox.ahead() != Ahead::Queued => {}
            Ok(taken) if taken == octets.len() => socket.outbox.set_empty(),
            Ok(taken) => Self::send_later(socket, octets.get(taken..).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Self::send_later(socket, octets),
            Err(error) => socket.fail(error),
        }
    }

    /// Has a task of its own send `octets`. It goes on when nobody else has the socket any more: for them, all was written.
    #[cold]
    fn send_later(socket: &Arc<Self>, octets: &[u8]) {
        socket.outbox.set_unsent(octets);
        crate::spawn(sends::unsent(Self::send_unsent(socket.clone())));
    }

    async fn send_unsent(socket: Arc<Self>) {
        loop {
            match timeout(STALL, poll_fn(|cx| socket.poll_send_some(cx))).await {
                Ok(Ok(is_all)) if is_all => return,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return socket.fail(Errno::from_io_error(&error).unwrap_or(Errno::PIPE)),
                // Whoever has the stream has deadlines.
                Err(_) if Arc::strong_count(&socket) > 1 => {}
                Err(_) => return socket.fail(Errno::TIMEDOUT),
            }
        }
    }

    /// Sends some of what is unsent. Whether that was all.
    fn poll_send_some(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.outbox.send_rest(cx, |octets, cx| {
            self.poll_io(cx, Interest::WRITABLE, octets.len(), |socket| {
                Ok(send(socket, octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
            })
        })
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

    /// Octets were lost: nothing more is sent, and nobody must take the end of the connection for that of what was said.
    fn fail(&self, error: Errno) {
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

/// For a peer that takes nothing of what is unsent, when nobody has the stream any more; then that is given up.
pub(crate) const STALL: Duration =
    if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(30) };
