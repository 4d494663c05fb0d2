//! A queue of connections in an open loop. These connections wait until a request is due. The connection
//! that has waited longest is the first.

use std::collections::VecDeque;
use std::task::Waker;

/// A queue of waiting connections. A due request wakes one connection. If another request is due, this
/// connection wakes the next connection.
#[derive(Debug, Default)]
pub(super) struct WaitingConnections {
    queue: VecDeque<usize>,
    places: Vec<Waiter>,
    waiting: usize,
    /// `true` if a connection was woken but has not been polled yet.
    is_woken: bool,
}

#[derive(Clone, Debug, Default)]
struct Waiter {
    waker: Option<Waker>,
    is_queued: bool,
}

impl WaitingConnections {
    /// Adds the connection slot `slot` to the queue.
    pub(super) fn park(&mut self, slot: usize, waker: &Waker) {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, Waiter::default());
        }
        let place = &mut self.places[slot];
        match &mut place.waker {
            Some(known) => known.clone_from(waker),
            unknown => {
                *unknown = Some(waker.clone());
                self.waiting += 1;
            }
        }
        if !place.is_queued {
            place.is_queued = true;
            self.queue.push_back(slot);
        }
    }

    /// Records that the connection slot `slot` does not wait any more, because its task is running.
    pub(super) fn leave(&mut self, slot: usize) {
        self.is_woken = false;
        if let Some(place) = self.places.get_mut(slot)
            && place.waker.take().is_some()
        {
            self.waiting -= 1;
        }
    }

    /// Wakes the connection that has waited longest.
    pub(super) fn wake_one(&mut self) {
        while let Some(slot) = self.queue.pop_front() {
            let place = &mut self.places[slot];
            place.is_queued = false;
            if let Some(waker) = place.waker.take() {
                self.waiting -= 1;
                self.is_woken = true;
                waker.wake();
                return;
            }
        }
    }

    /// Wakes all waiting connections.
    pub(super) fn wake_all(&mut self) {
        while self.waiting > 0 {
            self.wake_one();
        }
    }

    /// Returns `true` if a timer must wake a connection for the next request: connections wait, and no
    /// woken connection still has to run.
    pub(super) const fn needs_timer(&self) -> bool {
        self.waiting > 0 && !self.is_woken
    }

    /// Returns `true` if a connection waits.
    pub(super) const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }
}
