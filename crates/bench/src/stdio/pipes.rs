//! The pipes of a child, watched by the reactor.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use thruway_net::Transport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};

/// What a child reads and what it writes.
#[derive(Debug)]
pub(crate) struct Pipes {
    input: Option<Sender>,
    output: Receiver,
}

impl Pipes {
    /// Watches them with the reactor of this thread.
    pub(crate) fn watch(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        // Not blocking is a property of our ends alone.
        let input = Sender::from_file(File::from(input))?;
        Ok(Self { input: Some(input), output: Receiver::from_file(File::from(output))? })
    }
}

impl Transport for Pipes {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        Pin::new(&mut self.output).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write_vectored(cx, slices),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}
