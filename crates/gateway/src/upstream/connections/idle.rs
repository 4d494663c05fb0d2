//! How many connections wait to be used again, in all workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The counts of all workers. Each writes its own, so that none waits for another.
#[derive(Debug, Default)]
pub(crate) struct IdleCounts(Mutex<Vec<Weak<AtomicUsize>>>);

/// What one worker counts, as long as it does.
#[derive(Debug)]
pub(crate) struct IdleCount(Arc<AtomicUsize>);

impl IdleCounts {
    /// The count of one more worker.
    pub(crate) fn add(&self) -> IdleCount {
        let count = Arc::new(AtomicUsize::new(0));
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|count| count.strong_count() > 0);
        counts.push(Arc::downgrade(&count));
        IdleCount(count)
    }

    pub(crate) fn sum(&self) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter_map(Weak::upgrade).map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl IdleCount {
    #[inline]
    pub(crate) fn set(&self, connections: usize) {
        self.0.store(connections, Ordering::Relaxed);
    }
}
