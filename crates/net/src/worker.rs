//! State of a worker thread. The connections of the thread share this state.

use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use crate::balance::Balance;
use crate::clock::Clock;
use crate::deadlines::Deadlines;
use crate::tls_failure::TlsFailure;

/// State that the connections of one worker thread share. Other threads cannot access this state.
#[derive(Debug)]
pub struct Worker {
    index: usize,
    clock: Clock,
    deadlines: Deadlines,
    is_draining: Cell<bool>,
    is_cut_off: Cell<bool>,
    balance: Balance,
    /// For each listener number, `true` if the listener was removed.
    removed: RefCell<Vec<Rc<Cell<bool>>>>,
    /// Number of running tasks that accept connections.
    accepting: Cell<usize>,
    /// Waker of the worker's main task. The main task waits until the last connection has ended.
    waits_for_last: RefCell<Option<Waker>>,
    /// Values that other crates store, such as connection pools.
    states: States,
}

/// Linked list of values of different types. The list is short, and its values live as long as the worker.
#[derive(Debug, Default)]
struct States(OnceCell<Box<State>>);

#[derive(Debug)]
struct State {
    /// Type of the value. Comparing this id is cheaper than a call through `dyn Any`.
    id: TypeId,
    value: Box<dyn Any>,
    others: States,
}

impl Worker {
    pub(crate) fn new(index: usize, balance: Balance, clock: Clock) -> Rc<Self> {
        let worker = Rc::new(Self {
            index,
            clock,
            deadlines: Deadlines::new(),
            is_draining: Cell::new(false),
            is_cut_off: Cell::new(false),
            balance,
            removed: RefCell::default(),
            accepting: Cell::new(0),
            waits_for_last: RefCell::new(None),
            states: States::default(),
        });
        CURRENT.set(Rc::downgrade(&worker));
        worker
    }

    /// Returns the worker of this thread, or `None` if this is not a worker thread. Handlers use the worker
    /// when they open connections to upstream servers.
    pub fn current() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Weak::upgrade)
    }

    /// Creates a worker with the clock `clock` on the current thread, for tests.
    #[doc(hidden)]
    pub fn for_test(clock: Clock) -> Rc<Self> {
        Self::new(0, Balance::new(1, usize::MAX / 2), clock)
    }

    /// Returns the index of this worker, from 0.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.balance.workers()
    }

    /// Counts a client error in the [`WorkerLoad`](crate::WorkerLoad). A client error is a connection or
    /// message that the client did not complete or that breaks a protocol rule.
    pub fn count_client_fault(&self) {
        self.balance.count_client_fault(self.index);
    }

    /// Counts a failed TLS handshake with a client in the [`WorkerLoad`](crate::WorkerLoad).
    pub fn count_tls_failure(&self, failure: TlsFailure) {
        self.balance.count_tls_failure(self.index, failure);
    }

    /// Returns the worker's clock.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the value of type `T` of this worker. The first call creates the value. The value is dropped
    /// with the worker.
    ///
    /// Other crates use this method instead of a `thread_local!` for state that all connections of a worker
    /// share, such as a connection pool. `T` must not contain an `Rc<Worker>`, because the cycle of
    /// references would leak both values.
    #[inline]
    pub fn state<T: Any + Default>(&self) -> &T {
        let mut states = &self.states;
        loop {
            let state = states.0.get_or_init(|| Box::new(State::of::<T>()));
            if state.id == TypeId::of::<T>()
                && let Some(value) = state.value.downcast_ref()
            {
                return value;
            }
            states = &state.others;
        }
    }

    /// Returns the table with the deadlines of this worker's connections.
    pub const fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Returns `true` if the graceful shutdown (drain) has started. Each connection must then close after its
    /// accepted requests are answered. The start of the shutdown wakes all connections.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Starts the graceful shutdown of this worker and all its connections.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.deadlines.wake_all();
        self.wake_if_waiting();
    }

    /// Starts the graceful shutdown of the connections of one listener.
    pub(crate) fn remove_listener(&self, listener: usize) {
        self.is_removed(listener).set(true);
        self.deadlines.wake_all();
    }

    /// Returns the shared flag that becomes `true` when the listener is removed.
    fn is_removed(&self, listener: usize) -> Rc<Cell<bool>> {
        let mut removed = self.removed.borrow_mut();
        if removed.len() <= listener {
            removed.resize_with(listener + 1, Rc::default);
        }
        removed[listener].clone()
    }

    /// Returns the guard of a connection. The connection must already be assigned to this worker and
    /// counted as open.
    pub(crate) fn guard(self: &Rc<Self>, listener: usize, is_over_limit: bool) -> ConnectionGuard {
        ConnectionGuard { worker: self.clone(), is_over_limit, is_removed: self.is_removed(listener) }
    }

    /// Returns a guard for a task that accepts connections. A graceful shutdown waits until the guard is
    /// dropped.
    pub(crate) fn accepting(self: &Rc<Self>) -> Accepting {
        self.accepting.set(self.accepting.get() + 1);
        Accepting(self.clone())
    }

    /// Returns a guard for a connection without a listener, for tests.
    #[doc(hidden)]
    pub fn guard_for_test(self: &Rc<Self>) -> ConnectionGuard {
        let assigned = self.balance.assign(self.index);
        self.guard(0, assigned.is_none_or(|assigned| assigned.is_over_limit))
    }

    /// Sets the number of open connections to the configured maximum, for tests.
    #[doc(hidden)]
    pub fn fill_for_test(&self) {
        self.balance.fill(self.index);
    }

    /// Ready when the graceful shutdown is complete: all accepting tasks and all connections have ended, and
    /// all data is sent. The function `poll_all_sent` must return `Ready` when no data waits to be sent.
    pub(crate) fn poll_drained(
        &self,
        cx: &mut Context<'_>,
        poll_all_sent: fn(&Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        let is_ended = self.is_draining() && self.accepting.get() == 0;
        if is_ended && poll_all_sent(cx).is_ready() && self.balance.finish(self.index) {
            return Poll::Ready(());
        }
        self.waits_for_last.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Returns `true` if the graceful shutdown has reached its deadline. Connections must then stop
    /// immediately.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.get()
    }

    /// Aborts the remaining connections. Aborted connections remain counted as open.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.set(true);
        self.balance.cut_off(self.index);
    }

    /// Aborts the remaining connections, for tests.
    #[doc(hidden)]
    pub fn cut_off_for_test(&self) {
        self.cut_off();
    }

    pub(crate) fn wake_if_waiting(&self) {
        if let Some(waker) = self.waits_for_last.take() {
            waker.wake();
        }
    }
}

thread_local! {
    /// The worker of this thread. In tests, a thread can create several workers, and `CURRENT` is the
    /// newest worker.
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

impl State {
    #[cold]
    fn of<T: Any + Default>() -> Self {
        Self { id: TypeId::of::<T>(), value: Box::new(T::default()), others: States::default() }
    }
}

/// Guard that counts a connection as open until the guard is dropped.
#[derive(Debug)]
pub struct ConnectionGuard {
    worker: Rc<Worker>,
    is_over_limit: bool,
    is_removed: Rc<Cell<bool>>,
}

impl ConnectionGuard {
    /// Returns the worker that drives the connection.
    pub const fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Returns `true` if this connection must close after its accepted requests are answered. The reason is
    /// the graceful shutdown of its worker or the removal of its listener. Both events wake the connection.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.worker.is_draining() || self.is_removed.get()
    }

    /// Returns `true` if the maximum number of connections was already open when this connection was
    /// accepted.
    pub const fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.worker.balance.release(self.worker.index);
        if self.worker.is_draining() {
            self.worker.wake_if_waiting();
        }
    }
}

/// Guard of a task that accepts connections.
#[derive(Debug)]
pub(crate) struct Accepting(Rc<Worker>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.accepting.set(self.0.accepting.get() - 1);
        self.0.wake_if_waiting();
    }
}

/// Starts `task` on the thread of this worker. The task runs until it ends or the worker stops.
///
/// # Panics
/// Panics if this thread is not a worker's thread.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}
