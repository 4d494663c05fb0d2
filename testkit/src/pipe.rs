//! A connection in memory: one end is driven by what is tested, the other by the test.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use thruway_net::Transport;

/// State of one direction.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each end can be in each state by itself")]
struct State {
    arriving: VecDeque<u8>,
    written: Vec<u8>,
    /// Number of bytes that the driven end can write before the peer reads again.
    room: usize,
    /// Maximum number of bytes of one read.
    read_bytes_max: usize,
    /// Number of writes of the driven end.
    writes: usize,
    is_peer_finished: bool,
    is_driven_finished: bool,
    is_driven_closed: bool,
    is_reset: bool,
    /// The driven end has said that what it has written is all.
    is_end_told: bool,
    /// Unread output is lost when the driven end closes.
    is_unsent_discarded: bool,
    /// The driven end waits for something to change.
    waiting: Vec<Waker>,
}

/// The end that a test holds.
pub struct Peer(Arc<Mutex<State>>);

/// The end that is driven by what is tested.
pub struct DrivenEnd(Arc<Mutex<State>>);

/// The two ends of a connection.
pub fn pipe() -> (Peer, DrivenEnd) {
    let state = State { room: usize::MAX, read_bytes_max: usize::MAX, ..State::default() };
    let state = Arc::new(Mutex::new(state));
    (Peer(state.clone()), DrivenEnd(state))
}

/// A test that has failed while it held the lock has failed already.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    /// Changes the state, and tells the driven end that something has changed.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.0);
        change(&mut state);
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// Sends bytes, which arrive in one piece.
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        self.change(|state| state.arriving.extend(bytes.as_ref()));
    }

    /// Sends nothing more, but goes on reading.
    pub fn finish(&self) {
        self.change(|state| state.is_peer_finished = true);
    }

    /// Breaks the connection off.
    pub fn reset(&self) {
        self.change(|state| state.is_reset = true);
    }

    /// Accepts only this number of bytes from now on.
    pub fn take_only(&self, bytes: usize) {
        lock(&self.0).room = bytes;
    }

    /// Accepts this number of further bytes.
    pub fn take_more(&self, bytes: usize) {
        self.change(|state| state.room = state.room.saturating_add(bytes));
    }

    /// Splits the sent bytes into pieces of at most this size.
    pub fn cut_into(&self, bytes: usize) {
        lock(&self.0).read_bytes_max = bytes;
    }

    /// Returns the bytes that were written to this end since the last call.
    pub fn received(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0).written)
    }

    /// Returns the number of bytes that the driven end has not read.
    pub fn unread(&self) -> usize {
        lock(&self.0).arriving.len()
    }

    /// Returns the number of writes of the driven end.
    pub fn writes(&self) -> usize {
        lock(&self.0).writes
    }

    /// Returns `true` if the driven end sends nothing more.
    pub fn is_finished(&self) -> bool {
        lock(&self.0).is_driven_finished
    }

    /// Returns `true` if the driven end was dropped.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).is_driven_closed
    }

    /// Returns `true` if the driven end has marked the end of its output, as TLS does: by a clean close or by
    /// the shutdown.
    pub fn is_end_told(&self) -> bool {
        lock(&self.0).is_end_told
    }

    /// Returns `true` if the driven end has discarded the output that this end did not accept.
    pub fn is_unsent_discarded(&self) -> bool {
        lock(&self.0).is_unsent_discarded
    }
}

impl State {
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        assert!(!self.is_driven_finished, "nothing may be written after the shutdown");
        let length = bytes.len().min(self.room);
        if length == 0 && !bytes.is_empty() {
            return self.wait(cx);
        }
        self.room -= length;
        self.writes += 1;
        self.written.extend_from_slice(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    /// Discarded output has no end.
    const fn tell_end(&mut self) {
        self.is_end_told |= !self.is_unsent_discarded;
    }
}

impl Transport for DrivenEnd {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0);
        // As with a socket, input that arrived before the error can be read.
        if state.arriving.is_empty() {
            return match (state.is_reset, state.is_peer_finished) {
                (true, _) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                (false, true) => Poll::Ready(Ok(0)),
                (false, false) => state.wait(cx),
            };
        }
        let length = state.arriving.len().min(buffer.len()).min(state.read_bytes_max);
        for (place, byte) in buffer.iter_mut().zip(state.arriving.drain(..length)) {
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
        lock(&self.0).tell_end();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        state.is_driven_finished = true;
        state.tell_end();
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {
        lock(&self.0).is_unsent_discarded = true;
    }
}

impl Drop for DrivenEnd {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.is_driven_finished = true;
        state.is_driven_closed = true;
    }
}
