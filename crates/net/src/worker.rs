//! One thread of the engine, seen from the connections it drives.

use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use crate::balance::Balance;
use crate::clock::Clock;
use crate::deadlines::Deadlines;

/// What the connections of one worker share. Never leaves its thread.
#[derive(Debug)]
pub struct Worker {
    index: usize,
    clock: Clock,
    deadlines: Deadlines,
    is_draining: Cell<bool>,
    is_cut_off: Cell<bool>,
    balance: Balance,
    /// Whether each listener was removed, by its number.
    removed: RefCell<Vec<Rc<Cell<bool>>>>,
    /// Tasks that accept, and may still find what the kernel has completed.
    accepting: Cell<usize>,
    /// The worker's own task, which waits for the last connection to end.
    waits_for_last: RefCell<Option<Waker>>,
    /// State of other crates, such as connection pools.
    states: States,
}

/// Values of different types: a list, because there are few and none is removed before the worker.
#[derive(Debug, Default)]
struct States(OnceCell<Box<State>>);

#[derive(Debug)]
struct State {
    /// Type of the value. Comparing it here is cheaper than asking the value.
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

    /// The worker of this thread, if it is one: for handlers that have connections of their own.
    pub fn current() -> Option<Rc<Self>> {
        CURRENT.with_borrow(Weak::upgrade)
    }

    /// A worker without a thread, for tests: its time is `clock`.
    #[doc(hidden)]
    pub fn for_test(clock: Clock) -> Rc<Self> {
        Self::new(0, Balance::new(1, usize::MAX / 2), clock)
    }

    /// Which worker this is, from 0.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.balance.workers()
    }

    /// Counts a fault of a client in the [`WorkerLoad`](crate::WorkerLoad): a connection or a message that
    /// the client did not complete, or that breaks a rule.
    pub fn count_client_fault(&self) {
        self.balance.count_client_fault(self.index);
    }

    /// The time.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the state of type `T` that belongs to this worker. The first call creates it; it is dropped
    /// with the worker.
    ///
    /// A crate keeps here what all connections of a worker use, such as a connection pool, in place of a
    /// `thread_local!`. `T` must not contain an `Rc<Worker>`: neither would ever be dropped.
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

    /// When connections must be woken.
    pub const fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Whether connections are to end when they have answered what was accepted. All are woken when it
    /// begins.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Begins the drain.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.deadlines.wake_all();
        self.wake_if_waiting();
    }

    /// Begins the drain of the connections of one listener.
    pub(crate) fn remove_listener(&self, listener: usize) {
        self.is_removed(listener).set(true);
        self.deadlines.wake_all();
    }

    /// Whether a listener was removed, now and later.
    fn is_removed(&self, listener: usize) -> Rc<Cell<bool>> {
        let mut removed = self.removed.borrow_mut();
        if removed.len() <= listener {
            removed.resize_with(listener + 1, Rc::default);
        }
        removed[listener].clone()
    }

    /// Counts a connection that was assigned to this worker until the guard is dropped.
    pub(crate) fn guard(self: &Rc<Self>, listener: usize, is_over_limit: bool) -> ConnectionGuard {
        ConnectionGuard { worker: self.clone(), is_over_limit, is_removed: self.is_removed(listener) }
    }

    /// Has the drain wait for a task that accepts, until the guard is dropped.
    pub(crate) fn accepting(self: &Rc<Self>) -> Accepting {
        self.accepting.set(self.accepting.get() + 1);
        Accepting(self.clone())
    }

    /// A guard for a connection that no listener accepted, for tests.
    #[doc(hidden)]
    pub fn guard_for_test(self: &Rc<Self>) -> ConnectionGuard {
        let assigned = self.balance.assign(self.index);
        self.guard(0, assigned.is_none_or(|assigned| assigned.is_over_limit))
    }

    /// Lets there be as many connections as allowed, for tests.
    #[doc(hidden)]
    pub fn fill_for_test(&self) {
        self.balance.fill(self.index);
    }

    /// Ready when the drain has begun, all that the kernel had completed was accepted, and no connection is
    /// left. `poll_all_sent` is ready when nothing waits to be sent.
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

    /// Whether the time of the drain is over: what is not done will not be.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.get()
    }

    /// Gives up the connections that are left; they stay counted.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.set(true);
        self.balance.cut_off(self.index);
    }

    /// The same, for tests.
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
    /// The worker that was made last on this thread; a thread of the engine makes one.
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
    /// The worker that drives the connection.
    pub const fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Whether this connection is to end when it has answered what was accepted, because its worker drains or
    /// its listener was removed. It is woken when that begins.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.worker.is_draining() || self.is_removed.get()
    }

    /// Whether there were as many connections as allowed already when this one came.
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

/// Counts a task that accepts until it is dropped.
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
/// This is not the thread of a worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}
