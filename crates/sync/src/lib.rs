//! A mutex without poison.
//!
//! A panic while a lock is held ends its task and nothing else: what the lock protects is changed in steps that leave it
//! whole, so whoever comes next goes on with it. Said once, here, instead of wherever something is locked.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Protects a value; not to be held across an await.
#[derive(Default)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// The value, when nobody else has the lock any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, by whoever has the lock for itself.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_whoever_holds_it_does_not_lock_out_the_next() {
        let lock = Lock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        *lock.lock() += 1;
        assert_eq!(lock.into_inner(), 2);
    }
}
