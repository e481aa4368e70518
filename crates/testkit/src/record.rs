//! What happened, in order, and waiting for it with a deadline.

use std::fmt::{Debug, Write};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// How long every wait lasts at most.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Awaits something, or panics with its name after [`DEADLINE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("gave up after {DEADLINE:?} waiting for {what}"),
    }
}

/// Asks again and again, for conditions that nobody signals (files, ports, processes). Panics after [`DEADLINE`].
pub async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(value) = ask() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Locks also when a test has panicked elsewhere, so that its own report stays the first one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A list that only grows and can be awaited.
#[derive(Debug)]
pub struct AwaitedRecord<T> {
    items: Mutex<Vec<T>>,
    length: watch::Sender<usize>,
}

impl<T: Clone + Debug> AwaitedRecord<T> {
    pub(crate) fn new() -> Self {
        Self { items: Mutex::new(Vec::new()), length: watch::Sender::new(0) }
    }

    pub(crate) fn push(&self, item: T) {
        let mut items = lock(&self.items);
        items.push(item);
        // Under the lock, so that lengths are told in the order of the items.
        self.length.send_replace(items.len());
    }

    /// A copy of everything that was recorded so far.
    pub fn all(&self) -> Vec<T> {
        lock(&self.items).clone()
    }

    /// How many so far; with [`AwaitedRecord::since`] a place to continue from.
    pub fn len(&self) -> usize {
        lock(&self.items).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything so far, in a run that is too long to keep it. Places from before mean nothing any more.
    pub fn clear(&self) {
        let mut items = lock(&self.items);
        *items = Vec::new();
        self.length.send_replace(0);
    }

    /// All from a place on.
    pub fn since(&self, place: usize) -> Vec<T> {
        lock(&self.items).get(place..).unwrap_or_default().to_vec()
    }

    /// The first item, past or future, that fits.
    pub async fn wait_for(&self, what: &str, fits: impl Fn(&T) -> bool) -> T {
        self.wait_for_nth(what, 1, fits).await
    }

    /// The `nth` item (counted from 1) that fits.
    pub async fn wait_for_nth(&self, what: &str, nth: usize, fits: impl Fn(&T) -> bool) -> T {
        let mut changes = self.length.subscribe();
        let search = async {
            loop {
                // Before the look, so that an item that comes during it wakes the wait below.
                changes.mark_unchanged();
                let found = lock(&self.items).iter().filter(|item| fits(item)).nth(nth.saturating_sub(1)).cloned();
                if let Some(item) = found {
                    return item;
                }
                let _ = changes.changed().await;
            }
        };
        match tokio::time::timeout(DEADLINE, search).await {
            Ok(item) => item,
            Err(_) => panic!("gave up after {DEADLINE:?} waiting for {what} (no. {nth}) among {}", self.dump()),
        }
    }

    /// Everything, for a failure report.
    pub fn dump(&self) -> String {
        let items = lock(&self.items);
        let mut out = format!("{} items:", items.len());
        for (i, item) in items.iter().enumerate() {
            let _ = write!(out, "\n  {i}: {item:?}");
        }
        out
    }
}
