//! The bytes between the transport and the HTTP/2 library. The library reads and writes these bytes. The
//! connection counts the frames in them and records the times of reads and writes.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_net::{Gathered, PooledBuffer, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::flood_guard::FloodGuard;
use super::frames::{Frame, FrameScan};
use crate::connection::Service;

/// The transport, shared by the library and the connection.
pub(super) struct Wire<T>(Rc<RefCell<State<T>>>);

#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
struct State<T> {
    service: Rc<Service>,
    transport: T,

    // input
    /// Bytes that were read before the library took over.
    early: PooledBuffer,
    early_used: usize,
    received: FrameScan,
    /// `true` if a header section has begun but the last received frame does not end it.
    is_section_open: bool,
    /// `true` if the last received frame is data.
    is_content: bool,
    has_input_ended: bool,
    /// `true` if the transport has no data to read until the task is woken.
    would_block: bool,
    /// Number of bytes that the current poll may still read.
    poll_bytes_left: usize,

    // output
    output: Gathered,
    /// `true` if flushes of the library are delayed until the end of the poll.
    is_gathering: bool,
    sent: FrameScan,
    is_shut_down: bool,

    flood_guard: FloodGuard,
    times: Times,
}

/// Times of the latest reads and writes of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Times {
    now: Duration,
    /// Time when the client last accepted bytes.
    pub(super) written_at: Duration,
    /// Start of the current write stall, in which the client accepts no bytes. `None` without a stall.
    pub(super) stalled_since: Option<Duration>,
    /// Time at which the current header section, or the current frame other than DATA, began to arrive.
    /// `None` if no such section or frame is incomplete.
    pub(super) section_since: Option<Duration>,
}

impl<T: Transport> Wire<T> {
    pub(super) fn new(service: Rc<Service>, transport: T, early: PooledBuffer, now: Duration) -> Self {
        let flood_guard = FloodGuard::new(service.config.http2.flood_guard, now);
        Self(Rc::new(RefCell::new(State {
            service,
            transport,
            early,
            early_used: 0,
            received: FrameScan::behind(PREFACE_BYTES),
            is_section_open: false,
            is_content: false,
            has_input_ended: false,
            would_block: false,
            poll_bytes_left: POLL_READ_BYTES,
            output: Gathered::default(),
            is_gathering: false,
            sent: FrameScan::behind(0),
            is_shut_down: false,
            flood_guard,
            times: Times { now, written_at: now, ..Times::default() },
        })))
    }

    /// Returns a handle for the library.
    pub(super) fn clone_for_library(&self) -> Self {
        Self(self.0.clone())
    }

    /// Starts a poll of the connection: allows further reads, and adds points to the flood guard for the
    /// elapsed time.
    pub(super) fn begin_poll(&self, now: Duration) {
        let state = &mut *self.0.borrow_mut();
        state.poll_bytes_left = POLL_READ_BYTES;
        state.would_block = false;
        state.times.now = now;
        state.flood_guard.refill(now);
    }

    pub(super) fn times(&self) -> Times {
        self.0.borrow().times
    }

    /// Delays flushes of the library until [`poll_gathered`](Self::poll_gathered), because the library
    /// flushes after each request.
    pub(super) fn gather(&self) {
        self.0.borrow_mut().is_gathering = true;
    }

    /// Writes pending bytes.
    pub(super) fn poll_gathered(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.0.borrow_mut();
        state.is_gathering = false;
        state.poll_written(cx)
    }

    /// Returns `true` if the flood guard has no points left. Then the library can read no further bytes.
    pub(super) fn is_out_of_points(&self) -> bool {
        self.0.borrow().flood_guard.is_too_many()
    }

    /// Discards data that the client has not read.
    pub(super) fn discard_unsent(&self) {
        self.0.borrow_mut().transport.discard_unsent();
    }

    /// Closes the write side, unless the library has already closed it. Then discards bytes from the client,
    /// until the client closes the connection or `left` bytes were discarded. Without this step, the last
    /// response could be lost: the kernel sends a reset if a socket is closed with unread bytes.
    pub(super) fn poll_linger(&self, cx: &mut Context<'_>, left: &mut usize) -> Poll<()> {
        let state = &mut *self.0.borrow_mut();
        if ready!(state.poll_shutdown(cx)).is_err() {
            return Poll::Ready(());
        }
        let mut discarded = [0; LINGER_READ_BYTES];
        while *left > 0 && !state.has_input_ended {
            match ready!(state.transport.poll_read(cx, &mut discarded)) {
                Ok(read @ 1..) => *left = left.saturating_sub(read),
                Ok(0) | Err(_) => state.has_input_ended = true,
            }
        }
        Poll::Ready(())
    }
}

impl<T: Transport> State<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.flood_guard.is_too_many() {
            // The connection checks the flood guard in its next poll iteration, and then ends.
            return Poll::Pending;
        }
        if self.poll_bytes_left == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = if self.early.is_empty() {
            ready!(self.poll_transport(cx, buffer))?
        } else {
            self.read_early(buffer)
        };
        self.has_input_ended = read == 0;
        self.poll_bytes_left -= read.min(self.poll_bytes_left);
        let filled = buffer.filled();
        self.note_received(&filled[filled.len() - read..]);
        Poll::Ready(Ok(()))
    }

    /// Reads available bytes into the buffer of the worker, and copies them to `buffer`. A direct read would
    /// have to fill `buffer` with zeros first, which costs more than a copy of the usual few bytes.
    fn poll_transport(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let Self { transport, service, poll_bytes_left, would_block, .. } = self;
        if *would_block {
            return Poll::Pending;
        }
        let limit = buffer.remaining().min(*poll_bytes_left);
        service.with_input(|input| {
            let limit = limit.min(input.len());
            let polled = transport.poll_read(cx, &mut input[..limit]);
            *would_block = polled.is_pending();
            let read = ready!(polled)?;
            buffer.put_slice(&input[..read]);
            Poll::Ready(Ok(read))
        })
    }

    fn read_early(&mut self, buffer: &mut ReadBuf<'_>) -> usize {
        let early = &self.early[self.early_used..];
        let read = early.len().min(buffer.remaining());
        buffer.put_slice(&early[..read]);
        self.early_used += read;
        if self.early_used == self.early.len() {
            self.early = PooledBuffer::default();
        }
        read
    }

    fn note_received(&mut self, bytes: &[u8]) {
        let Self { received, flood_guard, is_section_open, is_content, times, .. } = self;
        received.pass(bytes, |frame: Frame| {
            flood_guard.received(frame);
            *is_section_open = frame.leaves_section_open();
            *is_content = frame.is_content();
        });
        let is_open = *is_section_open || (received.is_within_frame() && !*is_content);
        let since = times.section_since.or(Some(times.now));
        times.section_since = since.filter(|_| is_open);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Self { sent, flood_guard, .. } = self;
        sent.pass(bytes, |frame| flood_guard.sent(frame));
        self.output.push(bytes);
    }

    /// Ready when more data can be buffered.
    fn poll_write_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_full() { self.poll_written(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Writes pending bytes.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut has_moved = false;
        let outcome = self.output.poll_write_all(cx, &mut self.transport, &mut has_moved);
        if has_moved {
            self.times.written_at = self.times.now;
            self.times.stalled_since = None;
        }
        if outcome.is_pending() {
            self.times.stalled_since.get_or_insert(self.times.now);
        }
        outcome
    }

    /// Writes the pending bytes and closes the write side, unless it is already closed.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut_down {
            ready!(self.poll_written(cx))?;
            ready!(self.transport.poll_shutdown(cx))?;
            self.is_shut_down = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncRead for Wire<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(cx, buffer)
    }
}

/// Collects written frames until the library flushes or the buffer is full, because the library writes each
/// frame separately.
impl<T: Transport> AsyncWrite for Wire<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let state = &mut *self.0.borrow_mut();
        ready!(state.poll_write_capacity(cx))?;
        state.keep(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.0.borrow_mut();
        ready!(state.poll_write_capacity(cx))?;
        for slice in slices {
            state.keep(slice);
        }
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.0.borrow_mut();
        if state.is_gathering { state.poll_write_capacity(cx) } else { state.poll_written(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(cx)
    }
}

/// The preface: the first bytes that a client sends on an HTTP/2 connection (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PREFACE_BYTES: usize = PREFACE.len();

/// Maximum number of bytes that a connection reads in one poll before other connections run.
const POLL_READ_BYTES: usize = 256 << 10;

const LINGER_READ_BYTES: usize = 4 << 10;
