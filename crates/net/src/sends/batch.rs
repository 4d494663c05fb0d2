//! The batch of one thread: collects sends and passes them to the kernel with one system call.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::time::timeout;

use super::outbox::SendState;
use super::ring::{Ring, Send};
use crate::socket::{Socket, is_passing};
use crate::worker::spawn;

/// The collected sends of one thread.
#[derive(Debug)]
pub(super) struct Batch {
    ring: Ring,
    queued: Vec<Queued>,
    outcomes: Vec<Result<usize, Errno>>,
    /// Waker of the task that sends the batch.
    flusher: Option<Waker>,
}

/// Count of the sockets that did not accept all bytes of a batch. Each thread has a separate count.
struct Unsent {
    sockets: Cell<usize>,
    /// Waker of the task that waits for the end of a graceful shutdown. This task waits until the count is
    /// zero.
    waiting: Cell<Option<Waker>>,
}

#[derive(Debug)]
struct Queued {
    /// Reference that keeps the socket open until the data is sent, even if the stream is dropped.
    socket: Arc<Socket>,
    bytes: Range<usize>,
}

thread_local! {
    static UNSENT: Unsent = const { Unsent { sockets: Cell::new(0), waiting: Cell::new(None) } };
    pub(super) static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// Starts to batch the sends of this thread. The caller must spawn the returned future on this thread. The
/// future sends the batches and never ends.
///
/// # Errors
/// The kernel does not support `io_uring`, or this process may not use it.
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

/// Adds `slices` to the batch of this thread. Returns `false` if the caller must write directly, because
/// the thread has no batch or the data is large.
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

/// Sends the batch of this thread. If `io_uring` fails, stops batching.
fn flush() {
    // The access fails only while the thread ends. The batch no longer exists at that time.
    let _ = BATCH.try_with(|batch| {
        let mut slot = batch.borrow_mut();
        if let Some(Err(error)) = slot.as_mut().map(Batch::flush) {
            tracing::warn!(%error, "io_uring failed, no longer batching sends");
            *slot = None;
        }
    });
}

/// Makes the next batch of this thread fail.
#[cfg(test)]
pub(super) fn break_down() {
    BATCH.with_borrow(|batch| batch.as_ref().unwrap().ring.break_down());
}

/// Sends the batch of this thread and stops batching.
pub(crate) fn end() {
    flush();
    BATCH.set(None);
}

/// Returns a future that runs `sending`. A graceful shutdown waits until the future has ended: see
/// [`poll_all_sent`].
fn unsent(sending: impl Future<Output = ()>) -> impl Future<Output = ()> {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            // The access fails only while the thread ends, when the graceful shutdown is already complete.
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

/// Sends the batch of this thread. Ready when the thread has no unsent bytes. The bytes of a failed
/// connection do not count as unsent.
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

/// Returns the number of sockets of this thread with unsent bytes.
#[cfg(test)]
pub(super) fn unsent_sockets() -> usize {
    UNSENT.with(|unsent| unsent.sockets.get())
}

impl Batch {
    /// Adds a send to the batch. Returns the number of sends in the batch.
    fn queue(&mut self, socket: &Arc<Socket>, slices: &[IoSlice<'_>]) -> usize {
        if let Some(flusher) = self.flusher.take() {
            // The flusher is the task that sends the batch. The flusher runs after all tasks that are ready
            // now.
            flusher.wake();
        }
        let bytes = self.ring.keep(slices.iter().map(|slice| &**slice));
        self.queued.push(Queued { socket: socket.clone(), bytes });
        socket.outbox.set_queued();
        self.queued.len()
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { ring, queued, outcomes, .. } = self;
        if queued.len() <= 1 {
            // For a single send, a direct system call costs less than `io_uring`.
            if let Some(Queued { socket, bytes }) = queued.pop() {
                let bytes = ring.kept(bytes);
                Socket::handle_sent(&socket, bytes, send(&socket, bytes, DONTWAIT));
                ring.clear();
            }
            return Ok(());
        }
        let sends = queued.iter().map(|one| Send { socket: &*one.socket, bytes: one.bytes.clone() });
        let works = ring.send(sends, outcomes);
        for (Queued { socket, bytes }, outcome) in queued.drain(..).zip(outcomes.drain(..)) {
            match outcome {
                Ok(taken) if taken == bytes.len() => Socket::handle_sent(&socket, &[], Ok(0)),
                _ if works.is_err() => socket.give_up(),
                outcome => Socket::handle_sent(&socket, ring.kept(bytes), outcome),
            }
        }
        ring.clear();
        works
    }
}

impl Socket {
    /// Ready when no earlier bytes of this socket wait to be sent. If the batch contains bytes of this
    /// socket, sends the batch first.
    ///
    /// # Errors
    /// Earlier bytes could not be sent.
    #[inline]
    pub(crate) fn poll_clear(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.send_state() == SendState::Ready {
            Poll::Ready(Ok(()))
        } else {
            self.poll_clear_slowly(cx)
        }
    }

    #[cold]
    fn poll_clear_slowly(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.send_state() == SendState::Queued {
            flush();
        }
        match self.outbox.send_state() {
            SendState::Ready => Poll::Ready(Ok(())),
            SendState::Failed => Poll::Ready(Err(self.outbox.error().into())),
            SendState::Unsent => self.outbox.poll_sent(cx).map(Ok),
            SendState::Queued => {
                // The batch of another thread contains the bytes, and that thread will send them soon.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Works like `poll_clear`, but does not send the batch. Instead, waits until a different task has sent
    /// the batch.
    pub(crate) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.send_state() == SendState::Queued {
            // The task that sends the batch was woken before this task, so it runs first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.poll_clear(cx)
    }

    /// Handles the result of a send from the batch. `bytes` are the bytes of this send.
    #[inline]
    fn handle_sent(socket: &Arc<Self>, bytes: &[u8], outcome: Result<usize, Errno>) {
        match outcome {
            // The owner of the stream has discarded the data in the meantime.
            _ if socket.outbox.send_state() != SendState::Queued => {}
            Ok(taken) if taken == bytes.len() => socket.outbox.set_empty(),
            Ok(taken) => Self::send_later(socket, bytes.get(taken..).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Self::send_later(socket, bytes),
            Err(error) => socket.fail(error),
        }
    }

    /// Starts a task that sends `bytes`. The task also runs after the stream is dropped, because the stream
    /// has already reported these bytes as written.
    #[cold]
    fn send_later(socket: &Arc<Self>, bytes: &[u8]) {
        socket.outbox.set_unsent(bytes);
        spawn(unsent(Self::send_unsent(socket.clone())));
    }

    async fn send_unsent(socket: Arc<Self>) {
        loop {
            let mut writable = pin!(socket.writable());
            let send_some = poll_fn(|cx| {
                socket.outbox.send_unsent(cx, |bytes, cx| {
                    ready!(writable.as_mut().poll(cx))?;
                    Poll::Ready(socket.try_send(bytes))
                })
            });
            match timeout(STALL, send_some).await {
                Ok(Ok(is_all)) if is_all => return,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return socket.fail(Errno::from_io_error(&error).unwrap_or(Errno::PIPE)),
                // The stream still exists, and its owner sets deadlines for the connection.
                Err(_) if Arc::strong_count(&socket) > 1 => {}
                Err(_) => return socket.fail(Errno::TIMEDOUT),
            }
        }
    }

    /// Sends some of `bytes`. Returns 0 if the socket accepts no bytes now.
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        let attempt = self.try_io(Interest::WRITABLE, || {
            sent = send(self, bytes, DONTWAIT)?;
            Ok(())
        });
        match attempt {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(sent),
        }
    }
}

/// Flags of sends without `io_uring`. Sends with `io_uring` use the same flags.
const DONTWAIT: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Maximum number of sends in one batch. A larger batch would not be faster, and would delay its first
/// send.
pub(super) const SENDS_MAX: u32 = 64;

/// Maximum number of bytes of a send in a batch. For larger sends, a system call costs less than the copy.
pub(super) const SEND_BYTES_MAX: usize = 8 << 10;

/// If the stream was dropped and the peer accepts none of the unsent bytes within this time, the bytes are
/// discarded.
pub(super) const STALL: Duration =
    if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(30) };
