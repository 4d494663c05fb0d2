//! What a socket was given to send, and did not send yet.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustix::io::Errno;

/// What is to be sent before anything else.
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
    /// What there is to say of those that are not `EMPTY` or `QUEUED`.
    rest: Mutex<Option<Box<Rest>>>,
}

#[derive(Debug, Default)]
struct Rest {
    octets: Vec<u8>,
    error: Option<Errno>,
    /// Who wants to send more.
    waker: Option<Waker>,
    /// Who sends the octets.
    sender: Option<Waker>,
}

/// What stands in the way of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    /// Nothing.
    Nothing,
    /// Octets in the batch of the thread.
    Queued,
    /// Octets that the socket did not take.
    Unsent,
    /// An error: nothing will be sent any more.
    Failed,
}

impl Outbox {
    /// Octets were put into the batch.
    pub(super) fn set_queued(&self) {
        self.set(QUEUED);
    }

    /// What was in the batch was sent.
    pub(crate) fn set_empty(&self) {
        self.set(EMPTY);
    }

    /// What was in the batch was taken but for `octets`.
    pub(crate) fn set_unsent(&self, octets: &[u8]) {
        self.rest().get_or_insert_default().octets = octets.to_vec();
        self.set(UNSENT);
    }

    /// Nothing more will be sent. Whoever waits is told.
    pub(crate) fn set_failed(&self, error: Errno) {
        let rest = Rest { error: Some(error), ..Rest::default() };
        let before = self.rest().replace(Box::new(rest));
        self.set(FAILED);
        wake(before);
    }

    /// What is ahead of the next octets.
    #[inline]
    pub(crate) fn ahead(&self) -> Ahead {
        match self.state.load(Ordering::Acquire) {
            EMPTY => Ahead::Nothing,
            QUEUED => Ahead::Queued,
            UNSENT => Ahead::Unsent,
            _ => Ahead::Failed,
        }
    }

    /// What went wrong.
    pub(crate) fn error(&self) -> Errno {
        self.rest().as_ref().and_then(|rest| rest.error).unwrap_or(Errno::PIPE)
    }

    /// Ready when there is nothing unsent any more.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut rest = self.rest();
        match rest.as_mut().filter(|_| self.ahead() == Ahead::Unsent) {
            Some(rest) => {
                rest.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// Gives what is unsent to `poll_send`, which says how much of it was taken. Whether that was all: then
    /// whoever waits is told.
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
        let taken = ready!(poll_send(&rest.octets, cx))?;
        rest.octets.drain(..taken);
        if !rest.octets.is_empty() {
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

    fn rest(&self) -> MutexGuard<'_, Option<Box<Rest>>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(rest: Option<Box<Rest>>) {
    if let Some(rest) = rest {
        [rest.waker, rest.sender].into_iter().flatten().for_each(Waker::wake);
    }
}

const EMPTY: u8 = 0;
const QUEUED: u8 = 1;
const UNSENT: u8 = 2;
const FAILED: u8 = 3;
