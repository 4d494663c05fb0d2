//! Locks for the scripted servers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. Ignores poisoning, so a failed assertion in another thread does not hide the first failure.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
