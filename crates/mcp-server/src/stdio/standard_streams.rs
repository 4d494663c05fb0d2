//! The streams of one client: standard input and output, sockets, and pipes in memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// A source of bytes.
pub(crate) enum Input {
    /// A pipe. The reactor watches it.
    Pipe(pipe::Receiver),
    /// A socket. The reactor watches it.
    Socket(ReadHalf<UnixStream>),
    /// A pipe within the process.
    Memory(ReadHalf<DuplexStream>),
    /// Any other file, such as a terminal. A thread reads it.
    Thread(mpsc::Receiver<Vec<u8>>),
}

impl Input {
    pub(super) fn stdin() -> io::Result<Self> {
        let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
        let kind = File::from(stdin.try_clone()?).metadata()?.file_type();
        if kind.is_fifo() {
            // The pipe is opened again, because non-blocking mode would otherwise affect all processes that
            // share it.
            let file = OpenOptions::new().read(true).open("/proc/self/fd/0")?;
            return pipe::Receiver::from_file(file).map(Self::Pipe);
        }
        if kind.is_socket() {
            let socket = StdUnixStream::from(stdin);
            socket.set_nonblocking(true)?;
            let (input, _) = tokio::io::split(UnixStream::from_std(socket)?);
            return Ok(Self::Socket(input));
        }
        let (sender, receiver) = mpsc::channel(1);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read_all(&sender))?;
        Ok(Self::Thread(receiver))
    }

    /// Appends the bytes that have arrived, and returns their number. Returns 0 at the end.
    ///
    /// # Cancel safety
    /// No bytes are lost.
    pub(crate) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        bytes.reserve(READ_BYTES);
        match self {
            Self::Pipe(pipe) => pipe.read_buf(bytes).await,
            Self::Socket(socket) => socket.read_buf(bytes).await,
            Self::Memory(memory) => memory.read_buf(bytes).await,
            Self::Thread(receiver) => Ok(receiver.recv().await.map_or(0, |read| {
                bytes.extend_from_slice(&read);
                read.len()
            })),
        }
    }
}

fn read_all(sender: &mpsc::Sender<Vec<u8>>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stdin.read(&mut buffer) {
            Ok(read) if read > 0 => {
                if sender.blocking_send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// The size of a pipe's buffer on Linux, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A destination for bytes.
pub(crate) enum Output {
    /// A pipe. The reactor watches it.
    Pipe(pipe::Sender),
    /// A socket. The reactor watches it.
    Socket(WriteHalf<UnixStream>),
    /// A pipe within the process.
    Memory(WriteHalf<DuplexStream>),
    /// Any other file, such as a terminal. Writing to it does not block for long.
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

    /// Writes all bytes of `bytes`.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Socket(socket) => socket.write_all(bytes).await,
            Self::Memory(memory) => memory.write_all(bytes).await,
            Self::File(file) => file.write_all(bytes),
        }
    }
}
