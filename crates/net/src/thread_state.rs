//! The state of one thread for code without access to a worker: free buffers and pipes, and data for TLS
//! callbacks.
//!
//! A buffer returns to the pool of the thread that drops it. That thread may have no worker, and `Drop` takes
//! no arguments. So this is one of the few places for a `thread_local!`. The [`Worker`](crate::Worker) holds
//! the state of connections.

use std::cell::{Cell, RefCell};

use crate::splice::PipePool;
use crate::tls::Scratch;

/// The state of one thread.
pub(crate) struct ThreadState {
    /// Free buffers.
    pub(crate) buffers: RefCell<Vec<Vec<u8>>>,
    /// Free large buffers.
    pub(crate) large_buffers: RefCell<Vec<Box<[u8]>>>,
    /// Number of large buffers in use.
    pub(crate) large_buffers_in_use: Cell<usize>,
    /// Pipes for `splice`.
    pub(crate) pipes: RefCell<PipePool>,
    /// Buffers that TLS connections share while they are polled. `None` while a connection uses them.
    pub(crate) tls_scratch: Cell<Option<Scratch>>,
    /// The server name that the client sent, from the most recent handshake step. rustls shows this name only
    /// to its certificate resolver.
    pub(crate) asked_name: Cell<Option<Box<str>>>,
}

impl ThreadState {
    /// Calls `act` with the state of this thread.
    ///
    /// # Panics
    /// Panics while the thread ends.
    #[inline]
    pub(crate) fn with<R>(act: impl FnOnce(&Self) -> R) -> R {
        THREAD.with(act)
    }

    /// Calls `act` with the state of this thread; does nothing while the thread ends.
    #[inline]
    pub(crate) fn try_with(act: impl FnOnce(&Self)) {
        // The call fails only while the thread ends.
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
