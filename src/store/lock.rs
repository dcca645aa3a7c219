//! Locks of the store. A thread that panicked while it held one leaves plain data: it is read on.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
