//! The transport that the `h2` library uses. This transport counts bytes, limits the bytes that one poll
//! reads, and wakes the task of the connection instead of the library's wakers.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use thruway_net::Transport;

/// A transport that observes the bytes of a connection.
pub(super) struct Watched<T> {
    transport: T,
    observations: Rc<Observations>,
    spare: Rc<SpareBuffer>,
    ahead: Option<ReadAhead>,
}

/// Bytes that were read in advance for the `h2` library. The library reads only a few KiB at a time, but
/// dozens of responses may have arrived.
struct ReadAhead {
    bytes: Box<[u8]>,
    taken: usize,
    filled: usize,
}

/// A read buffer for the connections of a worker. A connection keeps the buffer only while the buffer
/// contains unread bytes.
#[derive(Default)]
pub(in crate::worker) struct SpareBuffer(Cell<Option<Box<[u8]>>>);

impl SpareBuffer {
    fn take(&self) -> Box<[u8]> {
        self.0.take().unwrap_or_else(|| vec![0; AHEAD_BYTES].into_boxed_slice())
    }

    fn give_back(&self, bytes: Box<[u8]>) {
        self.0.set(Some(bytes));
    }
}

/// Observations of a connection.
pub(super) struct Observations {
    /// Waker for the task of the connection. The `h2` library gets another waker, so the library cannot
    /// wake this task.
    task: RefCell<Waker>,
    /// Number of bytes that this poll may still read.
    poll_bytes_left: Cell<usize>,
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    greeting: Cell<Greeting>,
}

/// The start of the first frame that the server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Greeting {
    /// The header of the first frame is incomplete. Contains the received bytes of this header and their
    /// number.
    Expected([u8; FRAME_HEAD_BYTES], usize),
    /// The first frame is a `SETTINGS` frame, as RFC 9113 §3.4 requires.
    Settings,
    /// The server sent other bytes, so it does not use HTTP/2.
    Other,
}

impl Default for Observations {
    fn default() -> Self {
        Self {
            task: RefCell::new(Waker::noop().clone()),
            poll_bytes_left: Cell::new(0),
            received_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
            greeting: Cell::new(Greeting::Expected([0; FRAME_HEAD_BYTES], 0)),
        }
    }
}

impl Observations {
    /// Begins a poll of the connection. `task` is the waker for the task of the connection.
    pub(super) fn begin_poll(&self, task: &Waker) {
        self.task.borrow_mut().clone_from(task);
        self.poll_bytes_left.set(POLL_READ_BYTES);
    }

    /// Returns `true` if the poll has read its maximum number of bytes, and more input may be available.
    pub(super) fn is_poll_over(&self) -> bool {
        self.poll_bytes_left.get() == 0
    }

    /// Returns the bytes that were received and sent since the last call.
    pub(super) fn take_bytes(&self) -> (u64, u64) {
        (self.received_bytes.take(), self.sent_bytes.take())
    }

    /// Returns `true` if the server does not use HTTP/2.
    pub(super) fn is_other_protocol(&self) -> bool {
        self.greeting.get() == Greeting::Other
    }

    fn note_received(&self, bytes: &[u8]) -> io::Result<()> {
        self.received_bytes.set(self.received_bytes.get() + bytes.len() as u64);
        self.poll_bytes_left.set(self.poll_bytes_left.get().saturating_sub(bytes.len()));
        if let Greeting::Expected(head, filled) = self.greeting.get() {
            self.greeting.set(greeting(head, filled, bytes));
        }
        if self.is_other_protocol() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

fn greeting(mut head: [u8; FRAME_HEAD_BYTES], filled: usize, bytes: &[u8]) -> Greeting {
    let taken = bytes.len().min(FRAME_HEAD_BYTES - filled);
    head[filled..filled + taken].copy_from_slice(&bytes[..taken]);
    match head {
        _ if filled + taken < FRAME_HEAD_BYTES => Greeting::Expected(head, filled + taken),
        [_, _, _, SETTINGS, _, 0, 0, 0, 0] => Greeting::Settings,
        _ => Greeting::Other,
    }
}

impl<T> Watched<T> {
    pub(super) const fn new(transport: T, observations: Rc<Observations>, spare: Rc<SpareBuffer>) -> Self {
        Self { transport, observations, spare, ahead: None }
    }
}

impl<T: Transport> Watched<T> {
    fn poll_ahead(&mut self) -> Poll<io::Result<ReadAhead>> {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(Ok(ahead));
        }
        if self.observations.is_poll_over() {
            // No waker is necessary: after a poll that has reached its limit, the connection wakes its own
            // task.
            return Poll::Pending;
        }
        let mut bytes = self.spare.take();
        let task = self.observations.task.borrow();
        let filled = match self.transport.poll_read(&mut Context::from_waker(&task), &mut bytes) {
            Poll::Ready(Ok(filled)) => filled,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {
                self.spare.give_back(bytes);
                return Poll::Pending;
            }
        };
        self.observations.note_received(&bytes[..filled])?;
        Poll::Ready(Ok(ReadAhead { bytes, taken: 0, filled }))
    }
}

impl ReadAhead {
    /// Moves bytes into `buffer` until `buffer` is full. Returns the number of moved bytes, and the
    /// remaining bytes, if any.
    fn take(mut self, buffer: &mut [u8], spare: &SpareBuffer) -> (usize, Option<Self>) {
        let length = buffer.len().min(self.filled - self.taken);
        buffer[..length].copy_from_slice(&self.bytes[self.taken..self.taken + length]);
        self.taken += length;
        if self.taken < self.filled {
            return (length, Some(self));
        }
        spare.give_back(self.bytes);
        (length, None)
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let (read, ahead) = ready!(self.poll_ahead())?.take(buffer, &self.spare);
        self.ahead = ahead;
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let task = self.observations.task.borrow();
        let written = ready!(self.transport.poll_write(&mut Context::from_waker(&task), slices))?;
        self.observations.sent_bytes.set(self.observations.sent_bytes.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        self.transport.poll_send_file(cx, file, offset, length)
    }

    fn is_secured(&self) -> bool {
        self.transport.is_secured()
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let task = self.observations.task.borrow();
        self.transport.poll_shutdown(&mut Context::from_waker(&task))
    }

    fn discard_unsent(&mut self) {
        self.transport.discard_unsent();
    }
}

/// Maximum number of bytes that one poll reads. The limit gives time to other connections, and bounds the
/// memory for unprocessed input.
const POLL_READ_BYTES: usize = 256 << 10;

/// Size of one read in bytes.
const AHEAD_BYTES: usize = 64 << 10;

/// Length of a frame header in bytes (RFC 9113 §4.1).
const FRAME_HEAD_BYTES: usize = 9;

/// The frame type of `SETTINGS` (RFC 9113 §6.5).
const SETTINGS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pieces: &[&[u8]]) -> Observations {
        let observations = Observations::default();
        for piece in pieces {
            if observations.note_received(piece).is_err() {
                break;
            }
        }
        observations
    }

    #[test]
    fn bytes_read_ahead_are_delivered_piece_by_piece() {
        let (peer, end) = thruway_testkit::pipe();
        let observations = Rc::new(Observations::default());
        let mut watched = Watched::new(end, observations.clone(), Rc::default());
        let sent: Vec<u8> = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &[7; 5000], &[8; 3000]].concat();
        peer.send(&sent);
        let mut cx = Context::from_waker(Waker::noop());
        let mut buffer = [0; 1024];
        assert!(watched.poll_read(&mut cx, &mut buffer).is_pending(), "a read needs a poll iteration");
        observations.begin_poll(Waker::noop());
        let mut received = Vec::new();
        while let Poll::Ready(Ok(read)) = watched.poll_read(&mut cx, &mut buffer) {
            received.extend_from_slice(&buffer[..read]);
            // All bytes were read from the socket at once, so no further poll is needed.
            assert_eq!(observations.received_bytes.get(), sent.len() as u64);
            observations.poll_bytes_left.set(0);
        }
        assert!(received == sent && watched.ahead.is_none());
    }

    #[test]
    fn server_that_does_not_start_with_settings_is_no_http2_server() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0, 1, 2];
        for cut in 0..settings.len() {
            let (first, rest) = settings.split_at(cut);
            let observations = seen(&[first, rest]);
            assert_eq!(
                (observations.greeting.get(), observations.take_bytes()),
                (Greeting::Settings, (11, 0)),
                "{cut}"
            );
        }
        for other in [&b"HTTP/1.1 400 Bad Request\r\n"[..], &[0, 0, 0, 4, 0, 0, 0, 0, 1], &[0; 9]] {
            assert!(seen(&[other]).is_other_protocol(), "{other:?}");
            assert!(!seen(&[&other[..8]]).is_other_protocol(), "{other:?}");
        }
    }
}
