//! The batch of one thread: sends are put into it, and go to the kernel together.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::time::timeout;

use super::outbox::Ahead;
use super::ring::{Ring, Send};
use crate::socket::Socket;
use crate::worker::spawn;

/// The sends of one thread.
#[derive(Debug)]
pub(super) struct Batch {
    ring: Ring,
    queued: Vec<Queued>,
    outcomes: Vec<Result<usize, Errno>>,
    /// The task that sends it.
    flusher: Option<Waker>,
}

/// The sockets of one thread that did not take all bytes of a batch.
struct Unsent {
    sockets: Cell<usize>,
    /// The drain that waits until there are none.
    waiting: Cell<Option<Waker>>,
}

#[derive(Debug)]
struct Queued {
    /// Keeps the socket open until it was sent, whoever closes it meanwhile.
    socket: Arc<Socket>,
    octets: Range<usize>,
}

thread_local! {
    static UNSENT: Unsent = const { Unsent { sockets: Cell::new(0), waiting: Cell::new(None) } };
    pub(super) static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// From now on, sends of this thread are put together, and sent by the future that is returned: it never
/// ends, and is to be run beside everything else on this thread.
///
/// # Errors
/// The kernel has no `io_uring`, or this process may not use it.
pub(crate) fn begin() -> io::Result<impl Future<Output = ()>> {
    let batch =
        Batch { ring: Ring::new(SENDS_MAX)?, queued: Vec::new(), outcomes: Vec::new(), flusher: None };
    BATCH.set(Some(batch));
    Ok(poll_fn(|cx| {
        flush();
        BATCH.with_borrow_mut(|batch| {
            if let Some(batch) = batch {
                batch.flusher = Some(cx.waker().clone());
            }
        });
        Poll::Pending
    }))
}

/// Puts `slices` into the batch of this thread. False if there is none, or if they are better written at
/// once.
#[inline]
pub(crate) fn queue(socket: &Arc<Socket>, slices: &[IoSlice<'_>], length: usize) -> bool {
    if length > SEND_BYTES_MAX {
        return false;
    }
    let queued = BATCH.with_borrow_mut(|batch| batch.as_mut().map(|batch| batch.queue(socket, slices)));
    if queued.is_some_and(|count| count == SENDS_MAX as usize) {
        flush();
    }
    queued.is_some()
}

/// Sends what is in the batch of this thread.
fn flush() {
    // While the thread ends there is none any more.
    let _ = BATCH.try_with(|batch| {
        let mut slot = batch.borrow_mut();
        if let Some(Err(error)) = slot.as_mut().map(Batch::flush) {
            tracing::warn!(%error, "sends are no longer put together");
            *slot = None;
        }
    });
}

/// Has the next batch of this thread fail.
#[cfg(test)]
pub(super) fn break_down() {
    BATCH.with_borrow(|batch| batch.as_ref().unwrap().ring.break_down());
}

/// Sends what is in the batch of this thread, and puts nothing together any more.
pub(crate) fn end() {
    flush();
    BATCH.set(None);
}

/// Runs `sending`. A drain waits until it has ended: see [`poll_all_sent`].
fn unsent(sending: impl Future<Output = ()>) -> impl Future<Output = ()> {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            // The state is gone when the thread ends; no drain waits then.
            let _ = UNSENT.try_with(|unsent| {
                unsent.sockets.set(unsent.sockets.get() - 1);
                if let Some(waker) = unsent.waiting.take() {
                    waker.wake();
                }
            });
        }
    }
    UNSENT.with(|unsent| unsent.sockets.set(unsent.sockets.get() + 1));
    let counted = Counted;
    async move {
        sending.await;
        drop(counted);
    }
}

/// Ready when all bytes that this thread was given are sent, or are lost with their connection.
pub(crate) fn poll_all_sent(cx: &Context<'_>) -> Poll<()> {
    flush();
    UNSENT.with(|unsent| {
        if unsent.sockets.get() == 0 {
            return Poll::Ready(());
        }
        unsent.waiting.set(Some(cx.waker().clone()));
        Poll::Pending
    })
}

/// Number of sockets of this thread that did not take all bytes of a batch.
#[cfg(test)]
pub(super) fn unsent_sockets() -> usize {
    UNSENT.with(|unsent| unsent.sockets.get())
}

impl Batch {
    /// How many sends there are now.
    fn queue(&mut self, socket: &Arc<Socket>, slices: &[IoSlice<'_>]) -> usize {
        if let Some(flusher) = self.flusher.take() {
            // It stands behind all that is ready now.
            flusher.wake();
        }
        let octets = self.ring.keep(slices.iter().map(|slice| &**slice));
        self.queued.push(Queued { socket: socket.clone(), octets });
        socket.outbox.set_queued();
        self.queued.len()
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { ring, queued, outcomes, .. } = self;
        let works = match &queued[..] {
            [] => return Ok(()),
            // A call of its own costs less than the ring does.
            [only] => {
                outcomes.push(send(&only.socket, ring.kept(only.octets.clone()), DONTWAIT));
                Ok(())
            }
            several => {
                let sends =
                    several.iter().map(|one| Send { socket: &*one.socket, octets: one.octets.clone() });
                ring.send(sends, outcomes)
            }
        };
        for (Queued { socket, octets }, outcome) in queued.drain(..).zip(outcomes.drain(..)) {
            match outcome {
                Ok(taken) if taken == octets.len() => Socket::handle_sent(&socket, &[], Ok(0)),
                _ if works.is_err() => socket.give_up(),
                outcome => Socket::handle_sent(&socket, ring.kept(octets), outcome),
            }
        }
        ring.clear();
        works
    }
}

impl Socket {
    /// Ready when nothing is ahead of the next octets.
    ///
    /// # Errors
    /// What was given before could not be sent.
    #[inline]
    pub(crate) fn poll_clear(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.ahead() == Ahead::Nothing { Poll::Ready(Ok(())) } else { self.poll_clear_slowly(cx) }
    }

    #[cold]
    fn poll_clear_slowly(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.ahead() == Ahead::Queued {
            flush();
        }
        match self.outbox.ahead() {
            Ahead::Nothing => Poll::Ready(Ok(())),
            Ahead::Failed => Poll::Ready(Err(self.outbox.error().into())),
            Ahead::Unsent => self.outbox.poll_sent(cx).map(Ok),
            Ahead::Queued => {
                // On another thread, which is about to send it.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// The same, but what is in the batch stays there until that is sent.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.ahead() == Ahead::Queued {
            // What sends the batch was woken before and comes first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.poll_clear(cx)
    }

    /// What became of `octets` that were in the batch.
    #[inline]
    fn handle_sent(socket: &Arc<Self>, octets: &[u8], outcome: Result<usize, Errno>) {
        match outcome {
            // It was discarded meanwhile.
            _ if socket.outbox.ahead() != Ahead::Queued => {}
            Ok(taken) if taken == octets.len() => socket.outbox.set_empty(),
            Ok(taken) => Self::send_later(socket, octets.get(taken..).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Self::send_later(socket, octets),
            Err(error) => socket.fail(error),
        }
    }

    /// Has a task of its own send `octets`. It goes on when nobody else has the socket any more: for them,
    /// all was written.
    #[cold]
    fn send_later(socket: &Arc<Self>, octets: &[u8]) {
        socket.outbox.set_unsent(octets);
        spawn(unsent(Self::send_unsent(socket.clone())));
    }

    async fn send_unsent(socket: Arc<Self>) {
        loop {
            match timeout(STALL, poll_fn(|cx| socket.poll_send_some(cx))).await {
                Ok(Ok(is_all)) if is_all => return,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return socket.fail(Errno::from_io_error(&error).unwrap_or(Errno::PIPE)),
                // Whoever has the stream has deadlines.
                Err(_) if Arc::strong_count(&socket) > 1 => {}
                Err(_) => return socket.fail(Errno::TIMEDOUT),
            }
        }
    }

    /// Sends some of what is unsent. Whether that was all.
    fn poll_send_some(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.outbox.send_rest(cx, |octets, cx| {
            self.poll_io(cx, Interest::WRITABLE, octets.len(), |socket| {
                Ok(send(socket, octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
            })
        })
    }
}

/// As the ring sends.
const DONTWAIT: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Sends in one system call. More gains nothing, and lets the first wait.
pub(super) const SENDS_MAX: u32 = 64;

/// Octets that are worth copying to save a system call.
pub(super) const SEND_BYTES_MAX: usize = 16 << 10;

/// For a peer that takes nothing of what is unsent, when nobody has the stream any more; then that is given
/// up.
pub(super) const STALL: Duration =
    if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(30) };
