//! An exchange driven by whoever awaits it, with a timer of its own.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use thruway_net::Clock;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{Error, Exchange, ReadBuffers, ResponseEvent};

/// An exchange, the content of its request, and what wakes it when nothing comes.
pub(super) struct Driven {
    pub(super) exchange: Exchange,
    content: Bytes,
    alarm: Alarm,
}

impl Driven {
    pub(super) fn new(exchange: Exchange, content: Bytes) -> Self {
        Self { exchange, content, alarm: Alarm::default() }
    }

    /// Sends what the upstream takes, and gives the events of the response to `take` until it returns
    /// something.
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
            let mut turn = self.exchange.turn(buffers);
            while let Poll::Ready(event) = turn.poll_event(cx, now) {
                if let Some(taken) = take(event?) {
                    return Poll::Ready(Ok(taken));
                }
            }
            drop(turn);
            ready!(self.alarm.poll(cx, self.exchange.deadline(), now));
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

/// Buffers that no exchange uses now. All clients of the process share them: there are as many as threads
/// have polled exchanges at the same time, however many clients there are.
fn spare_buffers() -> MutexGuard<'static, Vec<ReadBuffers>> {
    static SPARE: Mutex<Vec<ReadBuffers>> = Mutex::new(Vec::new());
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time as exchanges know it.
pub(super) fn now() -> Duration {
    Clock::system().now()
}

/// Rings at a deadline. A deadline that is put off is not told to the timer: it rings too early then, and is
/// set anew.
#[derive(Default)]
struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    at: Duration,
}

impl Alarm {
    /// Ready when `deadline` may have passed.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Duration>, now: Duration) -> Poll<()> {
        // Most of who waits for ever has a deadline of its own, and needs no second timer.
        let Some(deadline) = deadline.filter(|deadline| *deadline != Duration::MAX) else {
            return Poll::Pending;
        };
        // The clock is coarse: it may show less than has passed.
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

/// Deadlines beyond what the timer can take are looked at once more on the way.
const LONGEST: Duration = Duration::from_hours(24);
