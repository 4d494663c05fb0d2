//! Deadlines: times at which the worker wakes a connection even if no data has arrived.
//!
//! Deadlines are cheap: setting a deadline writes a number into a table. Each worker has one coarse timer.
//! The timer scans the table and wakes the connections with overdue deadlines. Reads and writes register no
//! timers.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// Table with the deadlines of the connections of one worker. Clones share the table.
///
/// ```
/// use std::task::Waker;
/// use std::time::Duration;
///
/// use thruway_net::Deadlines;
///
/// let deadlines = Deadlines::new();
/// let deadline = deadlines.register();
/// deadline.set_waker(Waker::noop());
/// deadline.set(Some(Duration::from_secs(5)));
/// // The timer of the worker calls this function regularly.
/// deadlines.wake_overdue(Duration::from_secs(6));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Deadlines(Rc<RefCell<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Deadlines, in milliseconds of the clock of the worker.
    at: Vec<u64>,
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// The entry of one connection in the table. Dropping this value frees the entry.
#[derive(Debug)]
pub struct Deadline {
    table: Deadlines,
    place: usize,
}

impl Deadlines {
    /// Returns an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry without a deadline.
    pub fn register(&self) -> Deadline {
        let mut table = self.0.borrow_mut();
        let place = table.free.pop().unwrap_or_else(|| {
            table.at.push(NEVER);
            table.wakers.push(None);
            table.at.len() - 1
        });
        Deadline { table: self.clone(), place }
    }

    /// Wakes each connection whose deadline is `now` or earlier, and disables that deadline.
    pub fn wake_overdue(&self, now: Duration) {
        let now = milliseconds(now);
        let mut table = self.0.borrow_mut();
        let Table { at, wakers, .. } = &mut *table;
        for (at, waker) in at.iter_mut().zip(wakers) {
            if *at <= now {
                *at = NEVER;
                if let Some(waker) = waker {
                    waker.wake_by_ref();
                }
            }
        }
    }

    /// Wakes all connections, for events that all connections must handle, such as the start of a graceful
    /// shutdown.
    pub fn wake_all(&self) {
        self.0.borrow().wakers.iter().flatten().for_each(Waker::wake_by_ref);
    }
}

impl Deadline {
    /// Replaces the deadline. The worker wakes the connection at this time. `None` disables the deadline.
    #[inline]
    pub fn set(&self, at: Option<Duration>) {
        // Rounds up, so that the connection never wakes before its deadline.
        let at = at.map_or(NEVER, |at| milliseconds(at).saturating_add(1));
        self.table.0.borrow_mut().at[self.place] = at;
    }

    /// Sets the waker of the connection. Call this in every poll. The call is cheap if the waker has not
    /// changed.
    #[inline]
    pub fn set_waker(&self, waker: &Waker) {
        let mut table = self.table.0.borrow_mut();
        match &mut table.wakers[self.place] {
            Some(known) => known.clone_from(waker),
            unknown => *unknown = Some(waker.clone()),
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut table = self.table.0.borrow_mut();
        table.at[self.place] = NEVER;
        let waker = table.wakers[self.place].take();
        table.free.push(self.place);
        drop(table);
        drop(waker);
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(u64::from(time.subsec_millis()))
}

const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn registered(deadlines: &Deadlines) -> (Deadline, Arc<Count>) {
        let count = Arc::new(Count::default());
        let deadline = deadlines.register();
        deadline.set_waker(&Waker::from(count.clone()));
        (deadline, count)
    }

    #[test]
    fn overdue_deadlines_wake_once() {
        let deadlines = Deadlines::new();
        let (early, early_count) = registered(&deadlines);
        let (late, late_count) = registered(&deadlines);
        early.set(Some(Duration::from_secs(1)));
        late.set(Some(Duration::from_secs(3)));
        deadlines.wake_overdue(Duration::from_secs(2));
        deadlines.wake_overdue(Duration::from_secs(2));
        assert_eq!(early_count.0.load(Ordering::Relaxed), 1);
        assert_eq!(late_count.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn deadline_can_be_extended_and_removed() {
        let deadlines = Deadlines::new();
        let (deadline, count) = registered(&deadlines);
        deadline.set(Some(Duration::from_secs(1)));
        deadline.set(Some(Duration::from_secs(5)));
        deadlines.wake_overdue(Duration::from_secs(2));
        deadline.set(None);
        deadlines.wake_overdue(Duration::from_secs(9));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn slots_of_dropped_deadlines_are_reused() {
        let deadlines = Deadlines::new();
        let (first, _) = registered(&deadlines);
        first.set(Some(Duration::ZERO));
        drop(first);
        let (_second, count) = registered(&deadlines);
        deadlines.wake_overdue(Duration::from_secs(1));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert_eq!(deadlines.0.borrow().at.len(), 1);
        deadlines.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
