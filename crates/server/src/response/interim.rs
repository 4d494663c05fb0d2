//! Interim responses (1xx), which a handler sends before its final response.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use thruway_message::{FieldLinesBuf, StatusCode};
use thruway_net::Worker;

use super::Response;

/// An interim response, independent of the HTTP version.
#[derive(Debug)]
pub(crate) struct InterimResponse {
    pub(crate) status: StatusCode,
    pub(crate) field_lines: FieldLinesBuf,
}

/// Collects the interim responses that a handler sends while its worker polls it.
#[derive(Clone, Default, Debug)]
pub(crate) struct InterimSlot(Rc<Collected>);

#[derive(Default, Debug)]
struct Collected {
    /// `true` while the worker polls a handler.
    is_open: Cell<bool>,
    waiting: RefCell<Vec<InterimResponse>>,
}

impl InterimSlot {
    /// Returns the slot of `worker`.
    pub(crate) fn of(worker: &Worker) -> Self {
        worker.state::<Self>().clone()
    }

    /// Calls `poll`, and appends the interim responses that handlers send during this call to `waiting`.
    /// `poll` must not panic.
    #[inline]
    pub(crate) fn collect<R>(&self, waiting: &mut Vec<InterimResponse>, poll: impl FnOnce() -> R) -> R {
        // Few handlers send interim responses, so the vectors are usually empty.
        if !waiting.is_empty() {
            self.0.waiting.replace(std::mem::take(waiting));
        }
        self.0.is_open.set(true);
        let outcome = poll();
        self.0.is_open.set(false);
        let mut collected = self.0.waiting.borrow_mut();
        if !collected.is_empty() {
            *waiting = std::mem::take(&mut *collected);
        }
        outcome
    }

    /// Calls `poll`, and drops the interim responses that handlers send during this call. `poll` must not panic.
    pub(crate) fn discard<R>(&self, poll: impl FnOnce() -> R) -> R {
        let was_open = self.0.is_open.replace(false);
        let outcome = poll();
        self.0.is_open.set(was_open);
        outcome
    }
}

/// Sends interim responses for the requests of one worker, such as 103 with links to preload (RFC 9110
/// §15.2).
#[derive(Clone, Debug)]
pub struct InterimSender(InterimSlot);

impl InterimSender {
    /// Returns the sender for requests of `worker`.
    pub fn of(worker: &Worker) -> Self {
        Self(InterimSlot::of(worker))
    }

    /// Sends the status and the headers of `response` before the final response.
    ///
    /// Call this method in the future of an [`Answer::Later`](crate::Answer::Later), and not in another task.
    /// The interim response then belongs to the request of this future. A call anywhere else has no effect. A
    /// call also has no effect for HTTP/1.0 clients, and for status 101. Interim responses are dropped if
    /// more than 16 KiB of them would wait for a slow client.
    pub fn send(&self, response: &Response) {
        let status = response.status();
        if !status.is_interim() || status == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        let Collected { is_open, waiting } = &*self.0.0;
        if !is_open.get() {
            return;
        }
        let mut waiting = waiting.borrow_mut();
        let interim = InterimResponse { status, field_lines: response.field_lines().clone() };
        if waiting.iter().map(size).sum::<usize>() + size(&interim) <= WAITING_BYTES_MAX {
            waiting.push(interim);
        }
    }
}

/// Sends an interim response like [`InterimSender::send`]. Looks up the worker of the current thread. Use it
/// in code without access to the worker, such as an axum handler.
pub fn send_interim(response: &Response) {
    if let Some(worker) = Worker::current() {
        InterimSender::of(&worker).send(response);
    }
}

/// Returns the approximate size of `interim` in bytes.
fn size(interim: &InterimResponse) -> usize {
    STATUS_LINE_BYTES + interim.field_lines.bytes().len()
}

/// Maximum total size of the unsent interim responses of a request. They wait for earlier responses or for a
/// slow client.
const WAITING_BYTES_MAX: usize = 16 << 10;

const STATUS_LINE_BYTES: usize = 32;
