//! One thread of the engine, from the view of its connections.

use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use crate::balance::Balance;
use crate::clock::Clock;
use crate::deadlines::Deadlines;

/// The state that the connections of one worker share. It never leaves its thread.
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
    /// Number of tasks that accept connections and may still find some that the kernel has completed.
    accepting: Cell<usize>,
    /// The waker of the worker's own task, which waits for the last connection to end.
    waits_for_last: RefCell<Option<Waker>>,
    /// State of other crates, such as connection pools.
    states: States,
}

/// Values of different types in a linked list. The list is short, and its values live as long as the worker.
#[derive(Debug, Default)]
struct States(OnceCell<Box<State>>);

#[derive(Debug)]
struct State {
    /// Type of the value. Comparing it here is cheaper than a call through the `dyn Any`.
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

    /// Returns the worker of this thread, if there is one. Handlers use it for their own connections.
    pub fn current() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Weak::upgrade)
    }

    /// Returns a worker without a thread and with the clock `clock`, for tests.
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

    /// Counts a client error in the [`WorkerLoad`](crate::WorkerLoad): a connection or a message that the
    /// client did not complete, or that breaks a protocol rule.
    pub fn count_client_fault(&self) {
        self.balance.count_client_fault(self.index);
    }

    /// Returns the worker's clock.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the state of type `T` that belongs to this worker. The first call creates it. It is dropped
    /// with the worker.
    ///
    /// A crate stores here the state that all connections of a worker use, such as a connection pool, instead
    /// of in a `thread_local!`. `T` must not contain an `Rc<Worker>`: that cycle would leak both.
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

    /// Returns the deadlines at which connections are woken.
    pub const fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Returns `true` if connections must close after they have answered their accepted requests. The start
    /// of the drain wakes all connections.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Starts the drain.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.deadlines.wake_all();
        self.wake_if_waiting();
    }

    /// Starts the drain of the connections of one listener.
    pub(crate) fn remove_listener(&self, listener: usize) {
        self.is_removed(listener).set(true);
        self.deadlines.wake_all();
    }

    /// Returns the shared flag that is `true` once the listener was removed.
    fn is_removed(&self, listener: usize) -> Rc<Cell<bool>> {
        let mut removed = self.removed.borrow_mut();
        if removed.len() <= listener {
            removed.resize_with(listener + 1, Rc::default);
        }
        removed[listener].clone()
    }

    /// Counts a connection that was assigned to this worker, until the guard is dropped.
    pub(crate) fn guard(self: &Rc<Self>, listener: usize, is_over_limit: bool) -> ConnectionGuard {
        ConnectionGuard { worker: self.clone(), is_over_limit, is_removed: self.is_removed(listener) }
    }

    /// Makes the drain wait for an accepting task, until the guard is dropped.
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

    /// Sets the number of open connections to the maximum, for tests.
    #[doc(hidden)]
    pub fn fill_for_test(&self) {
        self.balance.fill(self.index);
    }

    /// Ready when the drain has started, all connections that the kernel had completed were accepted, and all
    /// connections have ended. `poll_all_sent` is ready when no data waits to be sent.
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

    /// Returns `true` if the time of the drain is over. Connections must then stop at once.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.get()
    }

    /// Abandons the remaining connections. They stay in the count.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.set(true);
        self.balance.cut_off(self.index);
    }

    /// Abandons the remaining connections, for tests.
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
    /// The worker that was created last on this thread. A thread of the engine creates one worker.
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

impl State {
    #[cold]
    fn of<T: Any + Default>() -> Self {
        Self { id: TypeId::of::<T>(), value: Box::new(T::default()), others: States::default() }
    }
}

/// Counts a connection as open until it is dropped.
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

    /// Returns `true` if this connection must close after it has answered its accepted requests, because its
    /// worker drains or its listener was removed. The start of the drain wakes the connection.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.worker.is_draining() || self.is_removed.get()
    }

    /// Returns `true` if the maximum number of connections was already open when this one was accepted.
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

/// Counts an accepting task until it is dropped.
#[derive(Debug)]
pub(crate) struct Accepting(Rc<Worker>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.accepting.set(self.0.accepting.get() - 1);
        self.0.wake_if_waiting();
    }
}

/// Runs `task` on this worker's thread until it ends.
///
/// # Panics
/// Panics if this thread is not a worker's thread.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}
