//! The bytes that a socket has accepted but not sent yet.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustix::io::Errno;

/// The bytes that must be sent first, and the state of the socket's sending side.
///
/// ```text
/// EMPTY ──▶ QUEUED ──▶ EMPTY
///             ├──▶ UNSENT ──▶ EMPTY | FAILED
///             └──▶ FAILED
/// ```
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// One of the states above. Only the thread that drives the socket changes it.
    state: AtomicU8,
    /// Details of the states `UNSENT` and `FAILED`.
    rest: Mutex<Option<Box<UnsentState>>>,
}

#[derive(Debug, Default)]
struct UnsentState {
    bytes: Vec<u8>,
    error: Option<Errno>,
    /// The waker of the task that wants to send more.
    waker: Option<Waker>,
    /// The waker of the task that sends the bytes.
    sender: Option<Waker>,
}

/// The obstacle to sending the next bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendObstacle {
    /// No obstacle.
    Nothing,
    /// Bytes in the batch of the thread.
    Queued,
    /// Bytes that the socket did not take.
    Unsent,
    /// An error: the socket sends no more bytes.
    Failed,
}

impl Outbox {
    /// Records that bytes were added to the batch.
    pub(super) fn set_queued(&self) {
        self.set(QUEUED);
    }

    /// Records that the bytes in the batch were sent.
    pub(crate) fn set_empty(&self) {
        self.set(EMPTY);
    }

    /// Records that the bytes in the batch were sent, except for `bytes`.
    pub(crate) fn set_unsent(&self, bytes: &[u8]) {
        self.rest().get_or_insert_default().bytes = bytes.to_vec();
        self.set(UNSENT);
    }

    /// Records that the socket sends no more bytes, and wakes the waiting tasks.
    pub(crate) fn set_failed(&self, error: Errno) {
        let rest = UnsentState { error: Some(error), ..UnsentState::default() };
        let before = self.rest().replace(Box::new(rest));
        self.set(FAILED);
        wake(before);
    }

    /// Returns the obstacle to sending the next bytes.
    #[inline]
    pub(crate) fn obstacle(&self) -> SendObstacle {
        match self.state.load(Ordering::Acquire) {
            EMPTY => SendObstacle::Nothing,
            QUEUED => SendObstacle::Queued,
            UNSENT => SendObstacle::Unsent,
            _ => SendObstacle::Failed,
        }
    }

    /// Returns the error of a failed socket.
    pub(crate) fn error(&self) -> Errno {
        self.rest().as_ref().and_then(|rest| rest.error).unwrap_or(Errno::PIPE)
    }

    /// Ready when no unsent bytes are left.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut rest = self.rest();
        match rest.as_mut().filter(|_| self.obstacle() == SendObstacle::Unsent) {
            Some(rest) => {
                rest.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// Passes the unsent bytes to `poll_send`, which returns the number of bytes taken. Returns `true` if
    /// none are left, and then wakes the waiting task.
    pub(crate) fn send_rest(
        &self,
        cx: &mut Context<'_>,
        poll_send: impl FnOnce(&[u8], &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<bool>> {
        let mut slot = self.rest();
        let Some(rest) = slot.as_mut().filter(|rest| rest.error.is_none()) else {
            return Poll::Ready(Ok(true));
        };
        rest.sender = Some(cx.waker().clone());
        let taken = ready!(poll_send(&rest.bytes, cx))?;
        rest.bytes.drain(..taken);
        if !rest.bytes.is_empty() {
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

    fn rest(&self) -> MutexGuard<'_, Option<Box<UnsentState>>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(rest: Option<Box<UnsentState>>) {
    if let Some(rest) = rest {
        [rest.waker, rest.sender].into_iter().flatten().for_each(Waker::wake);
    }
}

const EMPTY: u8 = 0;
const QUEUED: u8 = 1;
const UNSENT: u8 = 2;
const FAILED: u8 = 3;
