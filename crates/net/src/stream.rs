//! Byte streams over connected sockets.

use std::any::Any;
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::{libc, setsockopt_impl, sockopt_impl};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, getsockname, recv, send, sendmsg, shutdown, sockopt,
};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::address::ClientAddr;
use crate::sends;
use crate::socket::{AcceptedSocket, Kind, Socket};
use crate::splice::Pipe;
use crate::thread_state::ThreadState;
use crate::transport::Transport;
use crate::unsent_limits::UNSENT_BYTES;
use tokio::io::DuplexStream;

sockopt_impl!(
    /// The option `SO_RCVLOWAT`. The crates `rustix` and `socket2` do not support this option.
    ReceiveLowWater,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_RCVLOWAT,
    i32
);

/// A byte stream over a connected TCP or Unix socket.
///
/// On a worker thread, written data may wait until the worker has polled all ready tasks. The worker then
/// sends the data of all streams in one batch. Dropping the stream does not discard waiting data.
#[derive(Debug)]
pub struct Stream(Arc<Socket>);

impl Stream {
    /// Creates a stream from an accepted, non-blocking socket. The reactor of the thread that polls the
    /// stream watches the socket when an operation must wait.
    pub(crate) fn accepted(socket: OwnedFd, client: ClientAddr) -> Self {
        let is_tcp = matches!(client, ClientAddr::Tcp(_));
        Self(Socket::new(Kind::Accepted(AcceptedSocket::new(socket, is_tcp))))
    }

    /// Keeps `held`, such as a guard of a counter, until this end of the connection is closed. Call this at
    /// most once for each stream.
    pub fn hold(&self, held: impl Any + Send + Sync) {
        self.0.hold(Box::new(held));
    }

    /// Returns the local address of a TCP socket. For an accepted connection, this is the address to which
    /// the client has connected. Returns `None` for Unix sockets.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.0.is_tcp().then(|| getsockname(&*self.0).ok()?.try_into().ok()).flatten()
    }

    /// Sets the low-water mark of a TCP socket (`SO_RCVLOWAT`): the kernel reports the socket as readable only
    /// if at least `bytes` bytes have arrived, or if the connection has ended. The default is 1. Reads still
    /// return fewer bytes if the reactor has already reported data. Does nothing for Unix sockets.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn set_receive_low_water(&self, bytes: u32) -> io::Result<()> {
        if !self.0.is_tcp() {
            return Ok(());
        }
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        Ok(setsockopt(&self.0.as_fd(), ReceiveLowWater, &bytes)?)
    }

    /// Closes a TCP connection with a reset instead of a FIN when this stream is dropped. Neither end then keeps
    /// the connection in the state TIME-WAIT. Call this only if the application protocol needs no more bytes in
    /// either direction, because a reset discards bytes in transit. Does nothing for Unix sockets, or if the
    /// system refuses the option.
    pub fn reset_on_close(&self) {
        if self.0.is_tcp() {
            let _ = sockopt::set_socket_linger(&*self.0, Some(Duration::ZERO));
        }
    }

    /// Removes the socket from the reactor of this thread, and returns the descriptor of the socket. Must
    /// be called before the first write.
    pub(crate) fn into_socket(self) -> io::Result<OwnedFd> {
        let socket = Arc::try_unwrap(self.0).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        socket.into_owned_fd()
    }

    /// Calls `read` each time bytes have arrived, until `read` returns a result other than `WouldBlock`.
    pub(crate) fn poll_try_read(
        &self,
        cx: &mut Context<'_>,
        read: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_io(cx, Interest::READABLE, 0, read)
    }

    /// Calls `write` each time the socket can accept bytes, until `write` returns a result other than
    /// `WouldBlock`.
    pub(crate) fn poll_try_write(
        &self,
        cx: &mut Context<'_>,
        write: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.0.poll_clear(cx))?;
        self.0.poll_io(cx, Interest::WRITABLE, 0, write)
    }

    /// Implements [`Transport::poll_fill`] for sockets.
    fn poll_splice_from(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut Pipe,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        // The kernel reports a full pipe and an empty socket with the same error.
        debug_assert!(pipe.is_empty(), "the pipe must be empty before it is filled");
        match ready!(self.poll_try_read(cx, |socket| pipe.splice_from(socket, length))) {
            Err(error) if is_refusal(&error) => {
                refuse_splicing(&error);
                pipe.poll_copy_from(cx, self, length)
            }
            outcome => Poll::Ready(outcome),
        }
    }

    /// Implements [`Transport::poll_splice`] for sockets.
    fn poll_empty(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        if pipe.len() > UNSENT_BYTES as usize && self.0.has_default_unsent_limit() {
            ThreadState::with(|thread| thread.raised_limits.borrow_mut().raise(&self.0));
        }
        if !pipe.has_copied() {
            match ready!(self.poll_try_write(cx, |socket| pipe.splice_to(socket))) {
                Err(error) if is_refusal(&error) => refuse_splicing(&error),
                outcome => return Poll::Ready(outcome),
            }
        }
        pipe.poll_copy_to(cx, self)
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self(Socket::new(Kind::Tcp(stream)))
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self(Socket::new(Kind::Unix(stream)))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Transport for Stream {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let length = buffer.len();
        self.0.poll_io(cx, Interest::READABLE, length, |socket| {
            Ok(recv(socket, &mut *buffer, RecvFlags::empty())?.0)
        })
    }

    #[inline]
    fn has_no_input(&mut self) -> bool {
        self.0.has_no_input()
    }

    #[inline]
    fn may_have_arrived(&self) -> bool {
        self.0.is_readable()
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        ready!(self.0.poll_clear(cx))?;
        let length = slices.iter().map(|slice| slice.len()).sum();
        if sends::queue(&self.0, slices, length) {
            return Poll::Ready(Ok(length));
        }
        self.0.poll_io(cx, Interest::WRITABLE, length, |socket| match slices {
            [slice] => Ok(send(socket, slice, SendFlags::NOSIGNAL)?),
            slices => {
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, slices, &mut nothing, SendFlags::NOSIGNAL)?)
            }
        })
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |socket| {
            let mut offset = offset;
            Ok(sendfile(socket, file, Some(&mut offset), length)?)
        })
    }

    fn splices(&self) -> bool {
        true
    }

    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        self.poll_empty(cx, pipe)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe, length: usize) -> Poll<io::Result<usize>> {
        self.poll_splice_from(cx, pipe, length)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_sent(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_clear(cx))?;
        Poll::Ready(match shutdown(self.0.as_fd(), Shutdown::Write) {
            // The connection may already be shut down in both directions.
            Err(Errno::NOTCONN) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        })
    }

    fn discard_unsent(&mut self) {
        self.0.discard_unsent();
    }
}

/// Returns `true` if `error` means that `splice` is not allowed. The kernel or a system call filter may
/// refuse every call, or only calls with a certain kind of descriptor.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP];
    Errno::from_io_error(error).is_some_and(|error| refusals.contains(&error))
}

/// Disables splicing for this thread after a refusal, because further attempts would fail too.
#[cold]
fn refuse_splicing(error: &io::Error) {
    tracing::info!(%error, "the kernel refused to splice, copying instead");
    ThreadState::with(|thread| thread.pipes.borrow_mut().refuse());
}

/// A server that a client in the same process can reach without a TCP port.
pub trait InProcessServer {
    /// Starts a task that serves the client at the other end of `pipe` until the client closes the pipe.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    fn serve_pipe(&self, pipe: DuplexStream);
}

/// Capacity of an in-process pipe in each direction, in bytes. A Linux pipe has the same capacity.
pub const PIPE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::os::unix::net::UnixStream as Far;
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn data_before_the_first_read_needs_no_reactor() {
        let (near, mut far) = Far::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.write_all(b"abc").unwrap();
        let mut near = Stream::accepted(near.into(), ClientAddr::Unix);
        let mut cx = Context::from_waker(Waker::noop());
        // The reactor cannot have reported data, because this task has not waited.
        assert!(matches!(near.poll_read(&mut cx, &mut [0; 9]), Poll::Ready(Ok(3))));
        assert!(!near.may_have_arrived() && near.has_no_input());
        far.write_all(b"d").unwrap();
        assert!(!near.has_no_input());
        assert_eq!(poll_fn(|cx| near.poll_read(cx, &mut [0; 9])).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn stream_knows_that_no_data_has_arrived_after_a_short_read() {
        let (near, mut far) = Far::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut near = Stream::accepted(near.into(), ClientAddr::Unix);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(near.poll_read(&mut cx, &mut [0; 9]).is_pending());
        assert!(!near.may_have_arrived());
        far.write_all(b"abc").unwrap();
        assert_eq!(poll_fn(|cx| near.poll_read(cx, &mut [0])).await.unwrap(), 1);
        assert!(near.may_have_arrived(), "a full read: more data may be available");
        assert_eq!(poll_fn(|cx| near.poll_read(cx, &mut [0; 9])).await.unwrap(), 2);
        assert!(!near.may_have_arrived());
        drop(far);
        assert_eq!(poll_fn(|cx| near.poll_read(cx, &mut [0; 9])).await.unwrap(), 0);
        assert!(near.may_have_arrived(), "the end stays readable");
    }
}
