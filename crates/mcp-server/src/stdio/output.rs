//! Where messages go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// A sink of octets.
pub(crate) enum Output {
    /// A pipe, watched by the reactor.
    Pipe(pipe::Sender),
    /// A socket, watched by the reactor.
    Socket(WriteHalf<UnixStream>),
    /// The same process.
    Memory(WriteHalf<DuplexStream>),
    /// Anything else, such as a terminal or a file, which does not block for long.
    File(File),
}

impl Output {
    pub(super) fn stdout() -> io::Result<Self> {
        let stdout: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
        let file = File::from(stdout.try_clone()?);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            let file = OpenOptions::new().write(true).open("/proc/self/fd/1")?;
            return pipe::Sender::from_file(file).map(Self::Pipe);
        }
        if kind.is_socket() {
            let socket = StdUnixStream::from(stdout);
            socket.set_nonblocking(true)?;
            let (_, output) = tokio::io::split(UnixStream::from_std(socket)?);
            return Ok(Self::Socket(output));
        }
        Ok(Self::File(file))
    }

    /// Writes all of `octets`.
    pub(crate) async fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(octets).await,
            Self::Socket(socket) => socket.write_all(octets).await,
            Self::Memory(memory) => memory.write_all(octets).await,
            Self::File(file) => file.write_all(octets),
        }
    }
}
