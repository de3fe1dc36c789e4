//! Mutexes whose holders never panic half-way.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose holders never panic half-way.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
