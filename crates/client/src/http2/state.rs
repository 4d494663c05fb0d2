//! The state that a connection shares with its exchanges and its driver.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;

use super::byte_stream::ReceivedBytes;

/// The state that a connection shares with its exchanges and its driver.
#[derive(Default)]
pub(super) struct State {
    pub(super) exchanges: Cell<usize>,
    pub(super) heard: Rc<ReceivedBytes>,
    /// Number of exchanges that were dropped before their response was complete.
    pub(super) given_up: Cell<u32>,
    /// Number of pings since the upstream server last answered a request.
    pub(super) unanswered_pings: Cell<u32>,
    /// Number of bytes that had been received when the most recent ping was sent, or when its answer arrived.
    pub(super) ping_sent_at_bytes: Cell<u64>,
    /// `true` if an exchange has started since the last ping, or if other code has requested a ping since
    /// then.
    pub(super) has_begun: Cell<bool>,
    /// The waker of the driver.
    pub(super) watching: RefCell<Option<Waker>>,
    /// `true` if no more exchanges can start: the connection has ended, or too many exchanges were
    /// dropped.
    pub(super) is_over: Cell<bool>,
    /// `true` if the h2 library has processed the upstream server's settings.
    pub(super) has_settings: Cell<bool>,
    pub(super) awaiting_settings: RefCell<Vec<Waker>>,
}

/// Counts an exchange, or the tunnel of this exchange, as active until this value is dropped.
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

    /// Records that the caller has read a part of the response. Resets the number of pings if the connection
    /// has received data since the last ping.
    pub(super) fn note_answered(&self) {
        if self.state.heard.bytes() > self.state.ping_sent_at_bytes.get() {
            self.state.unanswered_pings.set(0);
        }
    }

    /// Records that the response is complete.
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
    /// Wakes the tasks that wait for the upstream server's settings, if the settings have arrived. Call
    /// this function when the h2 library waits for more data, because the library has then processed the
    /// settings.
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

/// Number of dropped exchanges after which the connection accepts no more exchanges: see
/// `LATE_FRAMES_MAX`.
const GIVEN_UP_MAX: u32 = 1 << 12;
