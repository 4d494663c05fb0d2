//! The octets of a connection, between its transport and the library.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use thruway_net::{Gathered, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What has come on a connection.
#[derive(Debug, Default)]
pub struct Heard {
    octets: Cell<u64>,
    /// How long the first frame is, from its head (RFC 9113 §4.1), as far as that is there.
    first_frame: Cell<u64>,
}

impl Heard {
    /// How many octets there were. That they change says that the upstream is still there.
    pub const fn octets(&self) -> u64 {
        self.octets.get()
    }

    /// Whether the first frame is there: the upstream's settings (RFC 9113 §3.4).
    pub const fn has_settings(&self) -> bool {
        self.octets.get() >= FRAME_HEAD_BYTES + self.first_frame.get()
    }

    fn note(&self, octets: &[u8]) {
        let before = usize::try_from(self.octets.get()).unwrap_or(usize::MAX);
        for octet in octets.iter().take(LENGTH_BYTES.saturating_sub(before)) {
            self.first_frame.set(self.first_frame.get() << 8 | u64::from(*octet));
        }
        self.octets.set(self.octets.get().wrapping_add(octets.len() as u64));
    }
}

/// The transport as the library has it. What is written is kept until it is flushed, or much: the library
/// writes frame by frame.
pub struct Octets<T> {
    transport: T,
    output: Gathered,
    heard: Rc<Heard>,
}

impl<T: Transport> Octets<T> {
    /// Those of `transport`; what comes is noted in `heard`.
    pub fn new(transport: T, heard: Rc<Heard>) -> Self {
        Self { transport, output: Gathered::default(), heard }
    }

    /// Ready when there is room for more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_full() { self.poll_written(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Writes what waits.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_write_all(cx, &mut self.transport, &mut false)
    }
}

/// Nothing in it is pinned.
impl<T> Unpin for Octets<T> {}

impl<T: Transport> AsyncRead for Octets<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.transport.poll_read(cx, buffer.initialize_unfilled()))?;
        let filled = buffer.filled().len();
        buffer.advance(read);
        self.heard.note(&buffer.filled()[filled..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for Octets<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
        self.output.push(octets);
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(cx))?;
        for slice in slices {
            self.output.push(slice);
        }
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_written(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_written(cx))?;
        self.transport.poll_shutdown(cx)
    }
}

/// Of which the first three octets are the length of what follows it.
const FRAME_HEAD_BYTES: u64 = 9;
const LENGTH_BYTES: usize = 3;
