//! A connected socket, and the state of its unsent data.
//!
//! If this process opens a connection, the reactor of the thread watches the socket at once. If this process
//! accepts a connection, the reactor watches the socket only after an operation has to wait. A connection
//! that carries a single request therefore needs no call of `epoll_ctl`.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use crate::sends::{Outbox, SendState};

/// A connected, non-blocking socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) kind: Kind,
    pub(crate) outbox: Outbox,
    /// `true` if the kernel buffers more unsent bytes than by default.
    is_unsent_limit_raised: AtomicBool,
    /// A value from the caller. The value is dropped together with the socket.
    held: OnceLock<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
    Accepted(AcceptedSocket),
}

/// An accepted socket.
#[derive(Debug)]
pub(crate) struct AcceptedSocket {
    /// The registration with the reactor, after an operation had to wait. This field is dropped before the
    /// descriptor, because the reactor needs an open descriptor to remove it.
    watched: OnceLock<AsyncFd<RawFd>>,
    /// The operations that were tried without the reactor: [`READ`], [`WRITTEN`] and [`NO_DATA`].
    tried: AtomicU8,
    descriptor: OwnedFd,
    is_tcp: bool,
}

impl Socket {
    pub(crate) fn new(kind: Kind) -> Arc<Self> {
        let is_unsent_limit_raised = AtomicBool::new(false);
        Arc::new(Self { kind, outbox: Outbox::default(), is_unsent_limit_raised, held: OnceLock::new() })
    }

    /// Keeps `held` until the socket is closed. Call this at most once for each socket.
    pub(crate) fn hold(&self, held: Box<dyn Any + Send + Sync>) {
        let is_first = self.held.set(held).is_ok();
        debug_assert!(is_first, "the socket already holds a value");
    }

    /// Removes the socket from the reactor of this thread, and returns the descriptor of the socket.
    pub(crate) fn into_owned_fd(self) -> io::Result<OwnedFd> {
        match self.kind {
            Kind::Tcp(stream) => stream.into_std().map(OwnedFd::from),
            Kind::Unix(stream) => stream.into_std().map(OwnedFd::from),
            Kind::Accepted(AcceptedSocket { watched, descriptor, .. }) => {
                drop(watched);
                Ok(descriptor)
            }
        }
    }

    /// Calls `operation` when the socket is ready. `wanted` is the number of bytes that `operation` tries
    /// to transfer. Returns the number of bytes that were transferred.
    ///
    /// If `operation` transfers fewer than `wanted` bytes, the next system call would return `WouldBlock`.
    /// To save that call, this function clears the readiness of the socket.
    #[inline]
    pub(crate) fn poll_io(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        wanted: usize,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if let Kind::Accepted(AcceptedSocket { watched, descriptor, .. }) = &self.kind
            && let Some(watched) = watched.get()
        {
            let operation = || operation(descriptor.as_fd());
            return poll_watched(watched, cx, interest, wanted, operation);
        }
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

    /// Returns `true` if a read would block, because neither data nor the end of the connection has
    /// arrived. Ignores the cooperative budget of tokio, because no task waits for the result.
    #[inline]
    pub(crate) fn has_no_input(&self) -> bool {
        let attempt = self.try_io(Interest::READABLE, || {
            recv(self.as_fd(), &mut [0], RecvFlags::PEEK)?;
            Ok(())
        });
        attempt.is_err_and(|error| is_passing(&error))
    }

    /// Returns `false` if the last read found no data, and the reactor has reported no data since then.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        if let Kind::Accepted(socket) = &self.kind
            && socket.watched.get().is_none()
        {
            return socket.tried.load(Ordering::Relaxed) & NO_DATA == 0;
        }
        let mut is_readable = false;
        // The closure makes no system call. tokio calls the closure only if the reactor has reported data.
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
            (Kind::Accepted(socket), is_read) => socket.poll_ready(cx, is_read),
        }
    }

    /// Completes when the socket may accept bytes. Unlike [`poll_io`](Self::poll_io), this method does not replace the
    /// waker of the task that waits to write, because tokio keeps only one such waker for a socket.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(stream) => stream.writable().await,
            Kind::Unix(stream) => stream.writable().await,
            Kind::Accepted(socket) => socket.watched()?.writable().await.map(drop),
        }
    }

    pub(crate) fn try_io(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(stream) => stream.try_io(interest, operation),
            Kind::Unix(stream) => stream.try_io(interest, operation),
            Kind::Accepted(socket) => match socket.watched.get() {
                Some(watched) => watched.try_io(interest, |_| operation()),
                None => socket.try_unwatched(interest, operation),
            },
        }
    }

    /// Returns `true` if this is an accepted TCP socket with the default limit of unsent bytes.
    pub(crate) fn has_default_unsent_limit(&self) -> bool {
        let is_default = !self.is_unsent_limit_raised.load(Ordering::Relaxed);
        is_default && matches!(&self.kind, Kind::Accepted(socket) if socket.is_tcp)
    }

    pub(crate) fn set_unsent_limit_raised(&self, is_raised: bool) {
        self.is_unsent_limit_raised.store(is_raised, Ordering::Relaxed);
    }

    /// Marks the socket as failed, and shuts down its read side. Callers use this function if they cannot
    /// know which bytes of a batch were sent.
    pub(crate) fn give_up(&self) {
        self.fail(Errno::CANCELED);
        // The call fails only if the connection has already failed.
        let _ = shutdown(self, Shutdown::Read);
    }

    /// Discards all unsent data.
    pub(crate) fn discard_unsent(&self) {
        if self.outbox.send_state() == SendState::Ready {
            self.reset_at_close();
        } else {
            self.fail(Errno::CANCELED);
        }
    }

    /// Marks the socket as failed after a loss of data. The socket sends no more bytes. Closing the socket
    /// resets the connection, so that the peer does not mistake the received part for a complete message.
    pub(crate) fn fail(&self, error: Errno) {
        self.outbox.set_failed(error);
        self.reset_at_close();
    }

    fn reset_at_close(&self) {
        if self.is_tcp() {
            // The call fails only if the connection has already failed and the kernel has discarded the
            // unsent data.
            let _ = sockopt::set_socket_linger(self, Some(Duration::ZERO));
        }
    }

    /// Returns `true` for a TCP socket and `false` for a Unix socket.
    pub(crate) const fn is_tcp(&self) -> bool {
        match &self.kind {
            Kind::Tcp(_) => true,
            Kind::Unix(_) => false,
            Kind::Accepted(socket) => socket.is_tcp,
        }
    }
}

impl AcceptedSocket {
    pub(crate) const fn new(descriptor: OwnedFd, is_tcp: bool) -> Self {
        Self { watched: OnceLock::new(), tried: AtomicU8::new(0), descriptor, is_tcp }
    }

    /// Ready if an operation may succeed. The first operation in each direction is tried at once, because the
    /// request has often arrived before the connection was accepted, and its response fits into the socket
    /// buffer. From the second operation on, the reactor watches the socket, so that the cooperative budget
    /// of tokio applies.
    fn poll_ready(&self, cx: &mut Context<'_>, is_read: bool) -> Poll<io::Result<()>> {
        if self.watched.get().is_none() {
            let direction = if is_read { READ } else { WRITTEN };
            let tried = self.tried.load(Ordering::Relaxed);
            if tried & direction == 0 {
                self.tried.store(tried | direction, Ordering::Relaxed);
                return Poll::Ready(Ok(()));
            }
        }
        let watched = self.watched()?;
        // Drops the guards, because `try_io` clears the readiness after an operation that would block.
        if is_read {
            watched.poll_read_ready(cx).map_ok(drop)
        } else {
            watched.poll_write_ready(cx).map_ok(drop)
        }
    }

    /// Calls `operation`. If `operation` is a read that found no data or fewer bytes than requested, records
    /// this.
    fn try_unwatched(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let outcome = operation();
        if interest.is_readable()
            && outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            self.tried.fetch_or(NO_DATA, Ordering::Relaxed);
        }
        outcome
    }

    /// Returns the registration with the reactor of this thread. The first call creates it.
    fn watched(&self) -> io::Result<&AsyncFd<RawFd>> {
        if let Some(watched) = self.watched.get() {
            return Ok(watched);
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watched = watch(self.descriptor.as_raw_fd(), interest)?;
        Ok(self.watched.get_or_init(|| watched))
    }
}

/// Works like [`Socket::poll_io`]. The guard of the readiness makes this function cheaper than two separate
/// calls for the readiness and for the operation.
fn poll_watched(
    watched: &AsyncFd<RawFd>,
    cx: &mut Context<'_>,
    interest: Interest,
    wanted: usize,
    mut operation: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        let mut guard = ready!(if interest.is_readable() {
            watched.poll_read_ready(cx)
        } else {
            watched.poll_write_ready(cx)
        })?;
        match operation() {
            Ok(count) => {
                if 0 < count && count < wanted {
                    guard.clear_ready();
                }
                return Poll::Ready(Ok(count));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

/// Registers `socket` with the reactor of this thread.
#[expect(deprecated, reason = "the replacement is unsafe, because some types return a closed descriptor")]
pub(crate) fn watch<S: AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(socket, interest)
}

/// Bits of [`AcceptedSocket::tried`].
const READ: u8 = 1;
const WRITTEN: u8 = 1 << 1;
/// A read found no data, or fewer bytes than requested.
const NO_DATA: u8 = 1 << 2;

/// Returns `true` if the operation had no effect and the caller can repeat it.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(stream) => stream.as_fd(),
            Kind::Unix(stream) => stream.as_fd(),
            Kind::Accepted(socket) => socket.descriptor.as_fd(),
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
