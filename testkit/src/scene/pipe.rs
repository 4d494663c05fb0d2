//! A connection in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use thruway_net::Transport;

/// Both ends' view of the connection.
pub(super) type Pipe = Rc<RefCell<State>>;

/// What is on its way.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each end can be in each state by itself")]
pub(super) struct State {
    pub(super) to_server: VecDeque<u8>,
    pub(super) to_client: Vec<u8>,
    /// How much the server can write before the client reads again.
    pub(super) room: usize,
    /// At most this many octets come out of one read.
    pub(super) read_bytes_max: usize,
    /// How often the server wrote.
    pub(super) writes: usize,
    pub(super) is_client_finished: bool,
    pub(super) is_server_finished: bool,
    pub(super) is_reset: bool,
    /// What the client has not taken when the server closes is lost.
    pub(super) is_unsent_discarded: bool,
    /// The server waits for something to change.
    waiting: Option<Waker>,
}

/// The server's end.
pub(super) struct ServerEnd(Pipe);

pub(super) fn pipe() -> (Pipe, ServerEnd) {
    let state = State { room: usize::MAX, read_bytes_max: usize::MAX, ..State::default() };
    let pipe = Rc::new(RefCell::new(state));
    (pipe.clone(), ServerEnd(pipe))
}

impl State {
    /// Tells the server that something has changed.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_write(&mut self, cx: &Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        assert!(!self.is_server_finished, "nothing may be written after the shutdown");
        let length = octets.len().min(self.room);
        if length == 0 && !octets.is_empty() {
            return self.wait(cx);
        }
        self.room -= length;
        self.writes += 1;
        self.to_client.extend_from_slice(&octets[..length]);
        Poll::Ready(Ok(length))
    }
}

impl Transport for ServerEnd {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.to_server.is_empty() {
            return if state.is_client_finished { Poll::Ready(Ok(0)) } else { state.wait(cx) };
        }
        let length = state.to_server.len().min(buffer.len()).min(state.read_bytes_max);
        for (place, octet) in buffer.iter_mut().zip(state.to_server.drain(..length)) {
            *place = octet;
        }
        Poll::Ready(Ok(length))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let octets: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.0.borrow_mut().poll_write(cx, &octets)
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut octets = vec![0; length.min(64 << 10)];
        let read = file.read_at(&mut octets, offset)?;
        self.0.borrow_mut().poll_write(cx, &octets[..read])
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().is_server_finished = true;
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {
        self.0.borrow_mut().is_unsent_discarded = true;
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.0.borrow_mut().is_server_finished = true;
    }
}
