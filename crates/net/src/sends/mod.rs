//! Sends of one worker that are handed to the kernel together.
//!
//! ```text
//! Stream::poll_write ──▶ batch ──(all that was ready has run, or the batch is full)──▶ one system call
//!                          │ taken only in part
//!                          └──▶ a task of its own sends the rest, and the stream takes no more meanwhile
//! ```
//! Where a worker shares its core with its peers, each send that wakes one is a point at which it may be put aside; a
//! batch of them is one. Octets are copied into the batch, so nothing is lent to the kernel beyond a call. Where there is no `io_uring`, nothing
//! is ever put into a batch, and streams write for themselves.

mod outbox;
mod ring;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::Worker;
use crate::socket::Socket;
use ring::{Ring, Send};

pub(crate) use outbox::{Ahead, Outbox};

/// The sends of one thread.
#[derive(Debug)]
struct Batch {
    ring: Ring,
    queued: Vec<Queued>,
    outcomes: Vec<Result<usize, Errno>>,
    /// The task that sends it.
    flusher: Option<Waker>,
}

#[derive(Debug)]
struct Queued {
    /// Keeps the socket open until it was sent, whoever closes it meanwhile.
    socket: Arc<Socket>,
    octets: Range<usize>,
}

thread_local! {
    /// How many sockets did not take all they were given.
    static UNSENT: Cell<usize> = const { Cell::new(0) };
    static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// From now on, sends of this thread are put together, and sent by the future that is returned: it never ends, and is to be run beside
/// everything else on this thread.
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

/// Puts `slices` into the batch of this thread. False if there is none, or if they are better written at once.
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
pub(crate) fn flush() {
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
fn break_down() {
    BATCH.with_borrow(|batch| batch.as_ref().unwrap().ring.break_down());
}

/// Sends what is in the batch of this thread, and puts nothing together any more.
pub(crate) fn end() {
    flush();
    BATCH.set(None);
}

/// Runs `sending`, which a worker that drains waits for from now on.
pub(crate) fn unsent(sending: impl Future<Output = ()>) -> impl Future<Output = ()> {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            UNSENT.set(UNSENT.get() - 1);
        }
    }
    UNSENT.set(UNSENT.get() + 1);
    let counted = Counted;
    async move {
        sending.await;
        drop(counted);
        if let Some(worker) = Worker::current() {
            worker.wake_if_waiting();
        }
    }
}

/// Whether all that this thread was given is sent.
pub(crate) fn is_all_sent() -> bool {
    flush();
    UNSENT.get() == 0
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

/// As the ring sends.
const DONTWAIT: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Sends in one system call. More gains nothing, and lets the first wait.
const SENDS_MAX: u32 = 64;

/// Octets that are worth copying to save a system call.
const SEND_BYTES_MAX: usize = 16 << 10;
