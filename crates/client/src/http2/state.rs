//! What a connection, its exchanges and its driver know of each other.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;

use super::octets::Heard;

/// What the connection, its exchanges and its driver know of each other.
#[derive(Default)]
pub(super) struct State {
    pub(super) exchanges: Cell<usize>,
    pub(super) heard: Rc<Heard>,
    /// Exchanges that were let go of before their end.
    pub(super) given_up: Cell<u32>,
    /// How often the upstream was asked whether it is there, since it has answered a request last.
    pub(super) asked: Cell<u32>,
    /// How many octets had come when it was asked last, or has answered that.
    pub(super) asked_behind: Cell<u64>,
    /// Whether an exchange has begun since, or it is in doubt whether the upstream is there.
    pub(super) has_begun: Cell<bool>,
    /// Wakes the driver.
    pub(super) watching: RefCell<Option<Waker>>,
    /// No exchange is to begin any more: all that was to be has been, or so many were given up.
    pub(super) is_over: Cell<bool>,
    /// Whether the library has taken note of the upstream's settings, and who waits for that.
    pub(super) has_settings: Cell<bool>,
    pub(super) awaiting_settings: RefCell<Vec<Waker>>,
}

/// Counts an exchange, or the tunnel that has become of it, as long as that is there.
pub struct Counted {
    state: Rc<State>,
    is_complete: bool,
}

impl Counted {
    pub(super) fn new(state: Rc<State>) -> Self {
        state.exchanges.set(state.exchanges.get() + 1);
        state.has_begun.set(true);
        Self { state, is_complete: false }
    }

    /// Something of the response was taken. What had come before the upstream was asked is no answer to
    /// anything.
    pub(super) fn note_answered(&self) {
        if self.state.heard.octets() > self.state.asked_behind.get() {
            self.state.asked.set(0);
        }
    }

    /// The response is complete.
    pub(super) const fn note_complete(&mut self) {
        self.is_complete = true;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let state = &self.state;
        state.exchanges.set(state.exchanges.get() - 1);
        if !self.is_complete {
            state.given_up.set(state.given_up.get() + 1);
        }
        if state.given_up.get() >= GIVEN_UP_MAX {
            state.is_over.set(true);
        }
    }
}

impl State {
    /// Tells those who wait for the upstream's settings, if the library has them. It has acted on all that
    /// has come when it waits for more.
    pub(super) fn note_settings(&self) {
        if !self.has_settings.get() && self.heard.has_settings() {
            self.has_settings.set(true);
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        self.awaiting_settings.take().into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}

/// Exchanges that are given up before their end, until another connection is opened: see `LATE_FRAMES_MAX`.
const GIVEN_UP_MAX: u32 = 1 << 12;
