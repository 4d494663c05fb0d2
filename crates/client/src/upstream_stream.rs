//! A connection to an upstream server, with TLS or without.

use std::fs::File;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use thruway_net::tls::TlsStream;
use thruway_net::{Pipe, Stream, Transport};

/// A connection to an upstream server: a socket, or TLS over a socket. Each call needs one branch to
/// distinguish the two kinds. The branch is predictable, and costs little compared with the system call
/// after it.
#[derive(Debug)]
pub enum UpstreamStream {
    /// A plain socket.
    Plain(Stream),
    /// TLS over a socket.
    Tls(Box<TlsStream>),
}

impl UpstreamStream {
    /// Returns the socket of a connection without TLS, or `None` if the connection uses TLS. The caller
    /// can splice data from this socket.
    pub const fn plain(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(_) => None,
        }
    }

    /// Returns the socket of a connection without TLS, or `None` if the connection uses TLS.
    pub const fn as_plain(&self) -> Option<&Stream> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(_) => None,
        }
    }

    /// Returns the protocol that ALPN negotiated, or `None` if no protocol was negotiated.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.alpn(),
        }
    }

    /// Returns `true` if the connection does not use TLS.
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl From<Stream> for UpstreamStream {
    fn from(stream: Stream) -> Self {
        Self::Plain(stream)
    }
}

impl Transport for UpstreamStream {
    fn is_secured(&self) -> bool {
        !self.is_plain()
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_read(cx, buffer),
            Self::Tls(stream) => stream.poll_read(cx, buffer),
        }
    }

    #[inline]
    fn has_no_input(&mut self) -> bool {
        match self {
            Self::Plain(stream) => stream.has_no_input(),
            Self::Tls(stream) => stream.has_no_input(),
        }
    }

    #[inline]
    fn may_have_arrived(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.may_have_arrived(),
            Self::Tls(stream) => stream.may_have_arrived(),
        }
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_write(cx, slices),
            Self::Tls(stream) => stream.poll_write(cx, slices),
        }
    }

    fn has_written_part(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.has_written_part(),
            Self::Tls(stream) => stream.has_written_part(),
        }
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_send_file(cx, file, offset, length),
            Self::Tls(stream) => stream.poll_send_file(cx, file, offset, length),
        }
    }

    fn splices(&self) -> bool {
        self.is_plain()
    }

    fn poll_splice(&mut self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_splice(cx, pipe),
            Self::Tls(stream) => stream.poll_splice(cx, pipe),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_flush(cx),
            Self::Tls(stream) => stream.poll_flush(cx),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_close(cx),
            Self::Tls(stream) => stream.poll_close(cx),
        }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_shutdown(cx),
            Self::Tls(stream) => stream.poll_shutdown(cx),
        }
    }

    fn discard_unsent(&mut self) {
        match self {
            Self::Plain(stream) => stream.discard_unsent(),
            Self::Tls(stream) => stream.discard_unsent(),
        }
    }
}
