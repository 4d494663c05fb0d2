//! Stores unsent bytes. The stream has already reported these bytes as written.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustix::io::Errno;

/// The unsent bytes of a socket, and the state of its write side.
///
/// ```text
/// EMPTY ──▶ QUEUED ──▶ EMPTY
///             ├──▶ UNSENT ──▶ EMPTY | FAILED
///             └──▶ FAILED
/// ```
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// One of the states in the diagram above. Only the thread that polls the socket changes the state.
    state: AtomicU8,
    /// The unsent bytes in the state `UNSENT`, or the error in the state `FAILED`.
    unsent: Mutex<Option<Box<UnsentState>>>,
}

#[derive(Debug, Default)]
struct UnsentState {
    bytes: Vec<u8>,
    error: Option<Errno>,
    /// Waker of the task that waits to write more bytes.
    waker: Option<Waker>,
    /// Waker of the task that sends `bytes`.
    sender: Option<Waker>,
}

/// Send state of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendState {
    /// The socket can send bytes now.
    Ready,
    /// Earlier bytes of the socket are still in the batch of the thread.
    Queued,
    /// The socket did not accept some earlier bytes. A task sends these bytes.
    Unsent,
    /// The socket has failed and sends no more bytes.
    Failed,
}

impl Outbox {
    /// Records that bytes of this socket were added to the batch.
    pub(super) fn set_queued(&self) {
        self.set(QUEUED);
    }

    /// Records that the bytes in the batch were sent.
    pub(crate) fn set_empty(&self) {
        self.set(EMPTY);
    }

    /// Records that the bytes in the batch were sent, except `bytes`.
    pub(crate) fn set_unsent(&self, bytes: &[u8]) {
        self.unsent().get_or_insert_default().bytes = bytes.to_vec();
        self.set(UNSENT);
    }

    /// Records that the socket has failed with `error`, and wakes the waiting tasks.
    pub(crate) fn set_failed(&self, error: Errno) {
        let unsent = UnsentState { error: Some(error), ..UnsentState::default() };
        let before = self.unsent().replace(Box::new(unsent));
        self.set(FAILED);
        wake(before);
    }

    /// Returns the send state of the socket.
    #[inline]
    pub(crate) fn send_state(&self) -> SendState {
        match self.state.load(Ordering::Acquire) {
            EMPTY => SendState::Ready,
            QUEUED => SendState::Queued,
            UNSENT => SendState::Unsent,
            _ => SendState::Failed,
        }
    }

    /// Returns the error of a failed socket.
    pub(crate) fn error(&self) -> Errno {
        self.unsent().as_ref().and_then(|unsent| unsent.error).unwrap_or(Errno::PIPE)
    }

    /// Ready when no unsent bytes are left, or when the socket has failed.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut unsent = self.unsent();
        match unsent.as_mut().filter(|_| self.send_state() == SendState::Unsent) {
            Some(unsent) => {
                unsent.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// Passes the unsent bytes to `poll_send`, which returns the number of accepted bytes. If no unsent
    /// bytes are left, wakes the waiting task and returns `true`.
    pub(crate) fn send_unsent(
        &self,
        cx: &mut Context<'_>,
        poll_send: impl FnOnce(&[u8], &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<bool>> {
        let mut slot = self.unsent();
        let Some(unsent) = slot.as_mut().filter(|unsent| unsent.error.is_none()) else {
            return Poll::Ready(Ok(true));
        };
        unsent.sender = Some(cx.waker().clone());
        let taken = ready!(poll_send(&unsent.bytes, cx))?;
        unsent.bytes.drain(..taken);
        if !unsent.bytes.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let before = slot.take();
        self.set(EMPTY);
        drop(slot);
        wake(before);
        Poll::Ready(Ok(true))
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
    }

    fn unsent(&self) -> MutexGuard<'_, Option<Box<UnsentState>>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(unsent: Option<Box<UnsentState>>) {
    if let Some(unsent) = unsent {
        [unsent.waker, unsent.sender].into_iter().flatten().for_each(Waker::wake);
    }
}

const EMPTY: u8 = 0;
const QUEUED: u8 = 1;
const UNSENT: u8 = 2;
const FAILED: u8 = 3;
