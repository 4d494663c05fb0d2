//! Connections of an open loop that wait for a request to become due, in the order in which they came to
//! wait.

use std::collections::VecDeque;
use std::task::Waker;

/// Waiting connections. One is woken for one request; a connection that takes a request wakes the next one if
/// another request is due.
#[derive(Debug, Default)]
pub(super) struct WaitingConnections {
    queue: VecDeque<usize>,
    places: Vec<Waiter>,
    waiting: usize,
    /// A connection was woken and has not been polled yet.
    is_woken: bool,
}

#[derive(Clone, Debug, Default)]
struct Waiter {
    waker: Option<Waker>,
    is_queued: bool,
}

impl WaitingConnections {
    /// The slot `lane` waits.
    pub(super) fn park(&mut self, lane: usize, waker: &Waker) {
        if self.places.len() <= lane {
            self.places.resize(lane + 1, Waiter::default());
        }
        let place = &mut self.places[lane];
        match &mut place.waker {
            Some(known) => known.clone_from(waker),
            unknown => {
                *unknown = Some(waker.clone());
                self.waiting += 1;
            }
        }
        if !place.is_queued {
            place.is_queued = true;
            self.queue.push_back(lane);
        }
    }

    /// The slot `lane` has looked: it waits no longer, unless it parks again.
    pub(super) fn leave(&mut self, lane: usize) {
        self.is_woken = false;
        if let Some(place) = self.places.get_mut(lane)
            && place.waker.take().is_some()
        {
            self.waiting -= 1;
        }
    }

    /// Wakes the one that has waited longest.
    pub(super) fn wake_one(&mut self) {
        while let Some(lane) = self.queue.pop_front() {
            let place = &mut self.places[lane];
            place.is_queued = false;
            if let Some(waker) = place.waker.take() {
                self.waiting -= 1;
                self.is_woken = true;
                waker.wake();
                return;
            }
        }
    }

    /// Wakes all.
    pub(super) fn wake_all(&mut self) {
        while self.waiting > 0 {
            self.wake_one();
        }
    }

    /// Returns `true` if the next request needs a timer: a connection waits, and none is about to be polled.
    pub(super) const fn needs_timer(&self) -> bool {
        self.waiting > 0 && !self.is_woken
    }

    /// Returns `true` if a connection waits.
    pub(super) const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }
}
