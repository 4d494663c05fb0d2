//! In-memory connection between the code under test ([`PipeTransport`]) and the test ([`PipePeer`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use thruway_net::Transport;

/// State of the connection, shared by both ends.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
struct State {
    /// Bytes from the peer that the transport has not read.
    to_transport: VecDeque<u8>,
    /// Bytes from the transport that the test has not taken.
    to_peer: Vec<u8>,
    /// Number of bytes that the transport can still write.
    receive_capacity: usize,
    /// Maximum number of bytes per read.
    read_bytes_max: usize,
    /// Number of successful writes by the transport.
    writes: usize,
    /// `true` if the peer sends no more bytes.
    is_peer_finished: bool,
    /// `true` if the transport sends no more bytes.
    is_transport_finished: bool,
    /// `true` if the transport was dropped.
    is_transport_dropped: bool,
    is_reset: bool,
    /// `true` if the transport has marked the end of its output. TLS does so with `close_notify`.
    has_clean_end: bool,
    /// `true` if the transport discards unsent output when it closes.
    is_unsent_discarded: bool,
    /// Wakers of pending reads and writes.
    wakers: Vec<Waker>,
}

/// The end of the connection that the test controls.
pub struct PipePeer(Arc<Mutex<State>>);

/// The end of the connection that the code under test reads and writes.
pub struct PipeTransport(Arc<Mutex<State>>);

/// Creates a connection. Returns its two ends.
pub fn pipe() -> (PipePeer, PipeTransport) {
    let state = State { receive_capacity: usize::MAX, read_bytes_max: usize::MAX, ..State::default() };
    let state = Arc::new(Mutex::new(state));
    (PipePeer(state.clone()), PipeTransport(state))
}

/// Locks `state`. Ignores poisoning, because the panic has already failed the test.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PipePeer {
    /// Changes the state and wakes the pending reads and writes of the transport.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.0);
        change(&mut state);
        state.wakers.drain(..).for_each(Waker::wake);
    }

    /// Sends bytes. The transport can read all of them at once, unless
    /// [`limit_read_size`](Self::limit_read_size) forbids it.
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        self.change(|state| state.to_transport.extend(bytes.as_ref()));
    }

    /// Closes the sending direction (half-close). The transport then reads an end of file.
    pub fn finish(&self) {
        self.change(|state| state.is_peer_finished = true);
    }

    /// Resets the connection.
    pub fn reset(&self) {
        self.change(|state| state.is_reset = true);
    }

    /// Sets the number of bytes that the transport can still write. Unlimited by default.
    pub fn set_receive_capacity(&self, bytes: usize) {
        lock(&self.0).receive_capacity = bytes;
    }

    /// Lets the transport write this number of additional bytes.
    pub fn add_receive_capacity(&self, bytes: usize) {
        self.change(|state| state.receive_capacity = state.receive_capacity.saturating_add(bytes));
    }

    /// Limits each read of the transport to this number of bytes.
    pub fn limit_read_size(&self, bytes: usize) {
        lock(&self.0).read_bytes_max = bytes;
    }

    /// Returns the bytes that the transport has written since the previous call.
    pub fn received(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0).to_peer)
    }

    /// Returns the number of sent bytes that the transport has not read.
    pub fn unread(&self) -> usize {
        lock(&self.0).to_transport.len()
    }

    /// Returns the number of successful writes by the transport.
    pub fn writes(&self) -> usize {
        lock(&self.0).writes
    }

    /// Returns `true` if the transport sends no more bytes.
    pub fn is_finished(&self) -> bool {
        lock(&self.0).is_transport_finished
    }

    /// Returns `true` if the transport was dropped.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).is_transport_dropped
    }

    /// Returns `true` if the transport has marked the end of its output, by a clean close or a shutdown. TLS
    /// sends `close_notify` for that.
    pub fn has_clean_end(&self) -> bool {
        lock(&self.0).has_clean_end
    }

    /// Returns `true` if the transport has discarded its unsent output.
    pub fn is_unsent_discarded(&self) -> bool {
        lock(&self.0).is_unsent_discarded
    }
}

impl State {
    /// Stores the waker, and returns `Pending`.
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.wakers.push(cx.waker().clone());
        Poll::Pending
    }

    fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        assert!(!self.is_transport_finished, "write after shutdown");
        let length = bytes.len().min(self.receive_capacity);
        if length == 0 && !bytes.is_empty() {
            return self.wait(cx);
        }
        self.receive_capacity -= length;
        self.writes += 1;
        self.to_peer.extend_from_slice(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    /// Marks the end of the output, unless unsent output was discarded.
    const fn mark_end(&mut self) {
        self.has_clean_end |= !self.is_unsent_discarded;
    }
}

impl Transport for PipeTransport {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0);
        // As with a socket, the transport can still read the bytes that arrived before the error.
        if state.to_transport.is_empty() {
            return match (state.is_reset, state.is_peer_finished) {
                (true, _) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                (false, true) => Poll::Ready(Ok(0)),
                (false, false) => state.wait(cx),
            };
        }
        let length = state.to_transport.len().min(buffer.len()).min(state.read_bytes_max);
        for (place, byte) in buffer.iter_mut().zip(state.to_transport.drain(..length)) {
            *place = byte;
        }
        Poll::Ready(Ok(length))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        lock(&self.0).poll_write(cx, &bytes)
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; length.min(64 << 10)];
        let read = file.read_at(&mut bytes, offset)?;
        lock(&self.0).poll_write(cx, &bytes[..read])
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).mark_end();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        state.is_transport_finished = true;
        state.mark_end();
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {
        lock(&self.0).is_unsent_discarded = true;
    }
}

impl Drop for PipeTransport {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.is_transport_finished = true;
        state.is_transport_dropped = true;
    }
}
