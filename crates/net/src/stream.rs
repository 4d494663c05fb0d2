//! Connected streams of octets.

use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::sendfile;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::{ClientAddr, Pipe};

/// A stream of octets in both directions, without blocking.
///
/// All methods register the task of `cx` to be woken when they return [`Poll::Pending`].
pub trait Transport: 'static {
    /// Reads into `buffer`; 0 is the end of what the peer sends.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes some of `slices`; how many octets is returned.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Writes up to `length` octets of `file` from `offset` on; how many is returned, 0 at the end of the file.
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

    /// Whether [`poll_splice`](Self::poll_splice) does without copying, so that it is worth to put octets into pipes.
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

    /// Tells the peer that nothing more will be written.
    ///
    /// # Errors
    /// The connection failed.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Lets what the peer has not taken be thrown away when the connection is closed, and the peer be told.
    fn discard_unsent(&mut self);
}

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection of a Unix domain socket.
    Unix(UnixStream),
}

impl Stream {
    /// Watches a connected, non-blocking socket with the reactor of this thread.
    pub(crate) fn watch(socket: OwnedFd, client: ClientAddr) -> io::Result<Self> {
        match client {
            ClientAddr::Tcp(_) => TcpStream::from_std(socket.into()).map(Self::Tcp),
            ClientAddr::Unix => UnixStream::from_std(socket.into()).map(Self::Unix),
        }
    }

    /// The address of this end, where a TCP client has connected to.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Takes the socket from the reactor of this thread.
    pub(crate) fn into_socket(self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(OwnedFd::from),
            Self::Unix(stream) => stream.into_std().map(OwnedFd::from),
        }
    }

    /// Calls `read` when octets have arrived, until it no longer says that it would block.
    pub(crate) fn poll_try_read(
        &self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let attempt = match self {
                Self::Tcp(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_io(Interest::READABLE, || read(stream.as_fd()))
                }
                Self::Unix(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_io(Interest::READABLE, || read(stream.as_fd()))
                }
            };
            if !is_to_be_repeated(&attempt) {
                return Poll::Ready(attempt);
            }
        }
    }

    /// Calls `write` when the socket takes octets, until it no longer says that it would block.
    pub(crate) fn poll_try_write(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let attempt = match self {
                Self::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || write(stream.as_fd()))
                }
                Self::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || write(stream.as_fd()))
                }
            };
            if !is_to_be_repeated(&attempt) {
                return Poll::Ready(attempt);
            }
        }
    }
}

/// Whether an attempt has to wait until the socket is ready, or was disturbed.
fn is_to_be_repeated(attempt: &io::Result<usize>) -> bool {
    let kind = attempt.as_ref().map_err(io::Error::kind);
    matches!(kind, Err(io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted))
}

impl Transport for Stream {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
        })?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (self, slices) {
            (Self::Tcp(stream), [slice]) => Pin::new(stream).poll_write(cx, slice),
            (Self::Unix(stream), [slice]) => Pin::new(stream).poll_write(cx, slice),
            (Self::Tcp(stream), slices) => Pin::new(stream).poll_write_vectored(cx, slices),
            (Self::Unix(stream), slices) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
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

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn discard_unsent(&mut self) {
        if let Self::Tcp(stream) = self {
            // Fails if the connection has failed: then nothing is kept either.
            let _ = sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO));
        }
    }
}
