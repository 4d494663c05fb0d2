//! A timer with microsecond precision. The timer of the async runtime has only millisecond precision, which
//! would delay the requests of an open loop.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::dispatch::Worker;

/// A timer that wakes one task. The timer uses the monotonic clock of the system, like
/// [`Clock`](thruway_net::Clock).
pub(super) struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    set_to: Option<Duration>,
}

impl Timer {
    /// Creates a timer that is not set yet, and registers the timer with the event loop of this thread.
    #[expect(
        deprecated,
        reason = "the function is unsound only for types that can change their descriptor, which `OwnedFd` cannot. The replacement needs unsafe code"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { descriptor: AsyncFd::with_interest(descriptor, Interest::READABLE)?, set_to: None })
    }

    /// Completes if the timer has expired since the last call. Otherwise wakes the task of `cx` at the time
    /// `at`.
    fn poll_until(&mut self, cx: &mut Context<'_>, at: Duration) -> Poll<io::Result<()>> {
        if self.set_to != Some(at) {
            let expiration = Itimerspec { it_interval: NONE, it_value: timespec(at) };
            timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::ABSTIME, &expiration)?;
            self.set_to = Some(at);
        }
        // The timer is never read, because setting the timer again also clears its readiness.
        ready!(self.descriptor.poll_read_ready(cx))?.clear_ready();
        self.set_to = None;
        Poll::Ready(Ok(()))
    }

    /// Calls [`Worker::wake_due`] when work is due. Completes only if the timer fails.
    pub(super) fn poll_worker(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let at = worker.poll_next_wake(cx);
        if let Poll::Ready(outcome) = self.poll_until(cx, at) {
            outcome?;
            worker.wake_due();
            // The woken tasks run first, because they determine the next due time.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// The value 0 would switch the timer off.
fn timespec(at: Duration) -> Timespec {
    let at = at.max(Duration::from_nanos(1));
    Timespec { tv_sec: at.as_secs().cast_signed(), tv_nsec: at.subsec_nanos().into() }
}

const NONE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
