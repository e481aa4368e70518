//! What each person has, counted in one book per name: a second token of the same person, or another reading of the configuration, must not
//! be a second count.

use std::collections::HashMap;
use std::sync::Arc;

use tidings_engine::{Principal, QuotaBook, QuotaLimits};
use tidings_sync::Lock;

/// How many books are kept before those are looked for that nobody has any longer.
const KEPT: usize = 10_000;

#[derive(Default)]
pub(crate) struct BookTable {
    /// Nothing: nobody is counted.
    limits: Option<QuotaLimits>,
    books: Lock<HashMap<Arc<str>, Arc<QuotaBook>>>,
}

impl BookTable {
    pub(crate) fn new(limits: Option<QuotaLimits>) -> Self {
        Self { limits, books: Lock::default() }
    }

    /// The same person, with their book.
    pub(crate) fn counted(&self, principal: Principal) -> Principal {
        let Some(limits) = self.limits else { return principal };
        let mut books = self.books.lock();
        if books.len() >= KEPT && !books.contains_key(&principal.name) {
            // Whoever has something now holds their book. Of the others what they used in a day is forgotten with it.
            books.retain(|_, book| Arc::strong_count(book) > 1);
        }
        let name = Arc::clone(&principal.name);
        let book = Arc::clone(books.entry(name).or_insert_with_key(|name| QuotaBook::new(name, limits)));
        principal.counted(book)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<QuotaBook>> {
        let mut books: Vec<_> =
            self.books.lock().iter().map(|(name, book)| (Arc::clone(name), Arc::clone(book))).collect();
        books.sort_by(|(one, _), (other, _)| one.cmp(other));
        books.into_iter().map(|(_, book)| book).collect()
    }
}
