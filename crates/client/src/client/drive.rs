//! An exchange with a timer. The task that waits for the response polls the exchange.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use thruway_net::Clock;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{Error, Exchange, ReadBuffers, ResponseEvent};

/// An exchange, the unsent part of its request body, and its timer.
pub(super) struct Driven {
    pub(super) exchange: Exchange,
    content: Bytes,
    timer: DeadlineTimer,
}

impl Driven {
    pub(super) fn new(exchange: Exchange, content: Bytes) -> Self {
        Self { exchange, content, timer: DeadlineTimer::default() }
    }

    /// Sends as much of the request as the upstream server accepts. Passes the events of the response to
    /// `take` until `take` returns a value, and returns this value.
    pub(super) fn poll_with<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnMut(ResponseEvent<'_>) -> Option<R>,
    ) -> Poll<Result<R, Error>> {
        let buffers = spare_buffers().pop().unwrap_or_default();
        let outcome = self.poll_reading(cx, &buffers, take);
        spare_buffers().push(buffers);
        outcome
    }

    fn poll_reading<R>(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &ReadBuffers,
        mut take: impl FnMut(ResponseEvent<'_>) -> Option<R>,
    ) -> Poll<Result<R, Error>> {
        loop {
            let now = now();
            self.send(cx, now)?;
            let mut poll = self.exchange.begin_poll(buffers);
            while let Poll::Ready(event) = poll.poll_event(cx, now) {
                if let Some(taken) = take(event?) {
                    return Poll::Ready(Ok(taken));
                }
            }
            drop(poll);
            ready!(self.timer.poll(cx, self.exchange.deadline(), now));
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, now: Duration) -> Result<(), Error> {
        while !self.content.is_empty()
            && let Poll::Ready(taken) = self.exchange.poll_send(cx, now, &self.content)?
        {
            self.content.advance(taken);
        }
        Ok(())
    }
}

/// Returns the free read buffers, which all clients of the process share. Each thread takes one buffer while
/// it polls an exchange, so the number of buffers does not depend on the number of clients.
fn spare_buffers() -> MutexGuard<'static, Vec<ReadBuffers>> {
    static SPARE: Mutex<Vec<ReadBuffers>> = Mutex::new(Vec::new());
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the current time on the clock that exchanges use.
pub(super) fn now() -> Duration {
    Clock::system().now()
}

/// A timer for a deadline. If the deadline moves to a later time, the timer still fires at the old time. Then
/// the timer is set to the new deadline.
#[derive(Default)]
struct DeadlineTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    at: Duration,
}

impl DeadlineTimer {
    /// Becomes ready when `deadline` may have passed.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Duration>, now: Duration) -> Poll<()> {
        // A caller that disables the timeouts usually has another timer, so this function needs no timer.
        let Some(deadline) = deadline.filter(|deadline| *deadline != Duration::MAX) else {
            return Poll::Pending;
        };
        // `now` comes from a coarse clock, which may lag behind.
        let until = || Instant::now() + deadline.saturating_sub(now).min(LONGEST) + COARSENESS;
        let is_set = deadline >= self.at && !self.sleep.as_ref().is_none_or(|sleep| sleep.is_elapsed());
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until())));
        if !is_set {
            sleep.as_mut().reset(until());
            self.at = deadline;
        }
        sleep.as_mut().poll(cx)
    }
}

const COARSENESS: Duration = Duration::from_millis(5);

/// Maximum duration of the timer. If the deadline is later, the timer is set again when it fires.
const LONGEST: Duration = Duration::from_hours(24);
