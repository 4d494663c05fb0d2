//! The connections that are not active yet in a closed loop with stages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use std::time::Duration;

/// Connections that wait until the stages allow more active connections.
#[derive(Debug, Default)]
pub(super) struct InactiveConnections {
    /// The time at which each waiting connection slot becomes active. An entry is obsolete if the slot has
    /// another time in `wakers`.
    times: BinaryHeap<Reverse<(Duration, usize)>>,
    wakers: Vec<Option<(Duration, Waker)>>,
}

impl InactiveConnections {
    /// Wakes the task of connection slot `slot` at `at`.
    pub(super) fn park(&mut self, slot: usize, at: Duration, waker: &Waker) {
        if self.wakers.len() <= slot {
            self.wakers.resize(slot + 1, None);
        }
        if self.wakers[slot].as_ref().is_none_or(|(known, _)| *known != at) {
            self.times.push(Reverse((at, slot)));
        }
        self.wakers[slot] = Some((at, waker.clone()));
    }

    /// Returns the next time at which a connection becomes active.
    pub(super) fn next(&self) -> Option<Duration> {
        self.times.peek().map(|Reverse((at, _))| *at)
    }

    /// Wakes the connections that become active at `now` or earlier.
    pub(super) fn wake_due(&mut self, now: Duration) {
        while let Some(Reverse((at, slot))) = self.times.peek().copied()
            && at <= now
        {
            self.times.pop();
            if self.wakers[slot].as_ref().is_some_and(|(known, _)| *known == at)
                && let Some((_, waker)) = self.wakers[slot].take()
            {
                waker.wake();
            }
        }
    }
}
