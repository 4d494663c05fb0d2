//! The state of one thread that code without a worker needs: free buffers and pipes, and what TLS libraries
//! call back with.
//!
//! Buffers go back to the thread that drops them, which can be one without a worker, and `Drop` has no
//! arguments. So this is one of the few places for a `thread_local!`; state that belongs to connections is in
//! the [`Worker`](crate::Worker).

use std::cell::{Cell, RefCell};

use crate::splice::PipePool;
use crate::tls::Scratch;

/// The state of one thread.
pub(crate) struct ThreadState {
    /// Buffers that wait to be used again.
    pub(crate) buffers: RefCell<Vec<Vec<u8>>>,
    /// Large buffers that wait to be used again.
    pub(crate) large_buffers: RefCell<Vec<Box<[u8]>>>,
    /// Number of large buffers in use.
    pub(crate) large_buffers_in_use: Cell<usize>,
    /// Pipes for `splice`.
    pub(crate) pipes: RefCell<PipePool>,
    /// Buffers that TLS connections use while they are polled, unless one of them has taken them.
    pub(crate) tls_scratch: Cell<Option<Scratch>>,
    /// The name that the client of a handshake asked for in the step that was taken last: rustls shows it to
    /// its resolver only.
    pub(crate) asked_name: Cell<Option<Box<str>>>,
}

impl ThreadState {
    /// Has `act` use the state of this thread.
    ///
    /// # Panics
    /// The thread ends.
    #[inline]
    pub(crate) fn with<R>(act: impl FnOnce(&Self) -> R) -> R {
        THREAD.with(act)
    }

    /// The same; does nothing while the thread ends.
    #[inline]
    pub(crate) fn try_with(act: impl FnOnce(&Self)) {
        // Fails only then.
        let _ = THREAD.try_with(act);
    }
}

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            buffers: RefCell::new(Vec::new()),
            large_buffers: RefCell::new(Vec::new()),
            large_buffers_in_use: Cell::new(0),
            pipes: RefCell::new(PipePool::new()),
            tls_scratch: Cell::new(None),
            asked_name: Cell::new(None),
        }
    };
}
