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

/// The input stream of a client.
pub(crate) enum Input {
    /// A pipe, which the tokio reactor watches.
    Pipe(pipe::Receiver),
    /// A socket, which the tokio reactor watches.
    Socket(ReadHalf<UnixStream>),
    /// A pipe within the process.
    Memory(ReadHalf<DuplexStream>),
    /// Any other file, such as a terminal. A separate thread reads the file.
    Thread(mpsc::Receiver<Vec<u8>>),
}

impl Input {
    pub(super) fn stdin() -> io::Result<Self> {
        let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
        let kind = File::from(stdin.try_clone()?).metadata()?.file_type();
        if kind.is_fifo() {
            // Open the pipe again, because non-blocking mode would affect all processes that share the open
            // pipe.
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

    /// Reads bytes, appends them to `bytes` and returns their number. Returns 0 at the end of the input.
    ///
    /// # Cancel safety
    /// Dropping the future loses no bytes.
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

/// Number of bytes to read at once. A pipe on Linux has a buffer of this size.
const READ_BYTES: usize = 64 << 10;

/// The output stream of a client.
pub(crate) enum Output {
    /// A pipe, which the tokio reactor watches.
    Pipe(pipe::Sender),
    /// A socket, which the tokio reactor watches.
    Socket(WriteHalf<UnixStream>),
    /// A pipe within the process.
    Memory(WriteHalf<DuplexStream>),
    /// Any other file, such as a terminal. Writing to the file does not block for long.
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

    /// Writes all of `bytes`.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Socket(socket) => socket.write_all(bytes).await,
            Self::Memory(memory) => memory.write_all(bytes).await,
            Self::File(file) => file.write_all(bytes),
        }
    }
}
