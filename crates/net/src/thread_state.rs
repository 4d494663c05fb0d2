//! State of a thread for code that cannot access the worker: free buffers, free pipes, and data for TLS
//! callbacks.
//!
//! A buffer returns to the pool of the thread that drops the buffer. The pool is in a `thread_local!`,
//! because a thread that drops buffers may have no worker, and because `Drop` takes no arguments. The state
//! of connections is in [`Worker`](crate::Worker).

use std::cell::{Cell, RefCell};

use crate::splice::PipePool;
#[cfg(feature = "tls")]
use crate::tls::Scratch;
use crate::unsent_limits::{PLACES, RaisedLimits};

pub(crate) struct ThreadState {
    /// Free buffers.
    pub(crate) buffers: RefCell<Vec<Vec<u8>>>,
    /// Free large buffers.
    pub(crate) large_buffers: RefCell<Vec<Box<[u8]>>>,
    pub(crate) large_buffers_in_use: Cell<usize>,
    /// Free pipes for `splice`.
    pub(crate) pipes: RefCell<PipePool>,
    /// Accepted connections with a higher limit for unsent bytes.
    pub(crate) raised_limits: RefCell<RaisedLimits>,
    /// Buffers that a TLS connection borrows during each poll. `None` while a connection uses the buffers.
    #[cfg(feature = "tls")]
    pub(crate) tls_scratch: Cell<Option<Scratch>>,
    /// Server name (SNI) that a client sent in the most recent handshake step on this thread. rustls passes
    /// this name only to the certificate resolver.
    #[cfg(feature = "tls")]
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

    /// Calls `act` with the state of this thread. Does nothing while the thread ends.
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
            raised_limits: RefCell::new(RaisedLimits::new(&PLACES)),
            #[cfg(feature = "tls")]
            tls_scratch: Cell::new(None),
            #[cfg(feature = "tls")]
            asked_name: Cell::new(None),
        }
    };
}
