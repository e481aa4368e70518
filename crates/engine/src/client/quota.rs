//! What one principal may have at a time: the one place where that is admitted and counted.
//!
//! A principal without a [`QuotaBook`] is not counted at all. With one, a request costs an addition when it comes and another when
//! it is over, on numbers that only this principal's requests touch; no lock is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidings_hub::limits::{LimitBook, OverLimit, TakenPlaces};
use tidings_hub::subscriptions::SeatAccount;
use tidings_hub::who::PersonFacts;
use tidings_proto::Method;
use tidings_sync::Lock;
use tidings_wire::BudgetShare;

use crate::plan::limit_desk::LimitDesk;

/// Something of which a principal may have only so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Requests that are not answered yet, of all its clients.
    Calls,
    /// Open `subscriptions/listen` requests.
    Listens,
    /// Legacy sessions.
    Sessions,
}

impl Quota {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Calls, Self::Listens, Self::Sessions];

    /// The key of `[quotas]`, which is the word in output, too.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Listens => "listens",
            Self::Sessions => "sessions",
        }
    }

    /// What a request counts as. A ping is always answered: without it a client takes the gateway for dead.
    pub(crate) fn of(method: Method) -> Option<Self> {
        match method {
            Method::Ping => None,
            Method::Listen => Some(Self::Listens),
            _ => Some(Self::Calls),
        }
    }
}

/// How many of each one principal may have, and how much memory its large messages may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Requests that are not answered yet.
    pub calls: usize,
    /// Open listens.
    pub listens: usize,
    /// Legacy sessions.
    pub sessions: usize,
    /// Resources that are followed, counted for each client.
    pub subscriptions: usize,
    /// Bytes of messages above 64 KiB.
    pub message_memory: usize,
}

impl QuotaLimits {
    fn of(&self, quota: Quota) -> usize {
        match quota {
            Quota::Calls => self.calls,
            Quota::Listens => self.listens,
            Quota::Sessions => self.sessions,
        }
    }
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{principal}\" has too many {} ({limit}, the limit `{}` of [quotas])", .quota.as_str(), .quota.as_str())]
pub struct OverQuota {
    /// Who has too many.
    pub principal: Arc<str>,
    /// What of.
    pub quota: Quota,
    /// How many there may be.
    pub limit: usize,
}

/// What one principal has now.
#[derive(Debug)]
pub struct QuotaBook {
    principal: Arc<str>,
    limits: QuotaLimits,
    used: [AtomicUsize; Quota::ALL.len()],
    refused: [AtomicU64; Quota::ALL.len()],
    /// Counted by the table of subscriptions, which knows when one ends.
    subscriptions: Arc<SeatAccount>,
    memory: Arc<BudgetShare>,
    /// What was used of what is limited. A lock of this person's own.
    items: Lock<LimitBook>,
}

/// A use of something that is limited, until it is dropped.
#[derive(Debug)]
pub(crate) struct LimitSeat {
    book: Arc<QuotaBook>,
    taken: TakenPlaces,
}

impl Drop for LimitSeat {
    fn drop(&mut self) {
        self.book.items.lock().leave(&self.taken);
    }
}

/// One thing that counts, until it is dropped.
#[derive(Debug)]
pub struct QuotaSeat {
    book: Arc<QuotaBook>,
    quota: Quota,
}

/// How near somebody is to one of the limits.
#[derive(Clone, Debug)]
pub struct QuotaMeasure {
    /// Whose it is.
    pub principal: Arc<str>,
    /// The word for what is counted.
    pub quota: &'static str,
    /// How many there are.
    pub used: usize,
    /// How many there may be.
    pub limit: usize,
    /// How often somebody was refused.
    pub refused: u64,
}

impl QuotaBook {
    /// A book of nothing yet.
    pub fn new(principal: &str, limits: QuotaLimits) -> Arc<Self> {
        Arc::new(Self {
            principal: principal.into(),
            limits,
            used: Default::default(),
            refused: Default::default(),
            subscriptions: SeatAccount::new(limits.subscriptions),
            memory: Arc::new(BudgetShare::new(limits.message_memory)),
            items: Lock::default(),
        })
    }

    /// Counts one more, unless there are as many as there may be. Whoever is let in has to leave.
    pub(crate) fn enter(&self, quota: Quota) -> Result<(), OverQuota> {
        let limit = self.limits.of(quota);
        // Counted first: two who come at once must not both get the last place.
        if self.used[quota as usize].fetch_add(1, Ordering::Relaxed) < limit {
            return Ok(());
        }
        self.leave(quota);
        if self.refused[quota as usize].fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                principal = &*self.principal,
                quota = quota.as_str(),
                limit,
                "is refused: a quota is used up"
            );
        }
        Err(OverQuota { principal: Arc::clone(&self.principal), quota, limit })
    }

    /// As [`Self::enter`], for a request.
    pub(crate) fn enter_request(&self, method: Method) -> Result<Option<Quota>, OverQuota> {
        let Some(quota) = Quota::of(method) else { return Ok(None) };
        self.enter(quota).map(|()| Some(quota))
    }

    pub(crate) fn leave(&self, quota: Quota) {
        self.used[quota as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// As many as there are, and one more in the place of another that ends now.
    fn replace(self: &Arc<Self>, quota: Quota) -> QuotaSeat {
        self.used[quota as usize].fetch_add(1, Ordering::Relaxed);
        QuotaSeat { book: Arc::clone(self), quota }
    }

    /// One more use of an item that may be limited. Gives a seat where a place is taken.
    pub(crate) fn use_item(
        self: &Arc<Self>,
        desk: &LimitDesk,
        person: &PersonFacts,
        item: (&str, &str),
    ) -> Result<Option<Box<LimitSeat>>, OverLimit> {
        let taken = self.items.lock().enter(&desk.rules(), person, item, desk.now());
        let taken = taken.inspect_err(|over| desk.note(over))?;
        Ok((!taken.is_empty()).then(|| Box::new(LimitSeat { book: Arc::clone(self), taken })))
    }

    /// On which its subscriptions count.
    pub(crate) fn subscriptions(&self) -> &Arc<SeatAccount> {
        &self.subscriptions
    }

    /// What its large messages take of the memory.
    pub fn memory(&self) -> &Arc<BudgetShare> {
        &self.memory
    }

    /// Everything that is counted, now.
    pub fn measures(&self) -> impl Iterator<Item = QuotaMeasure> + '_ {
        let counts = Quota::ALL.map(|quota| QuotaMeasure {
            principal: Arc::clone(&self.principal),
            quota: quota.as_str(),
            used: self.used[quota as usize].load(Ordering::Relaxed),
            limit: self.limits.of(quota),
            refused: self.refused[quota as usize].load(Ordering::Relaxed),
        });
        let memory = QuotaMeasure {
            principal: Arc::clone(&self.principal),
            quota: "message_memory",
            used: self.memory.used(),
            limit: self.limits.message_memory,
            refused: self.memory.refused(),
        };
        let subscriptions = QuotaMeasure {
            principal: Arc::clone(&self.principal),
            quota: "subscriptions",
            used: self.subscriptions.used(),
            limit: self.subscriptions.limit(),
            refused: self.subscriptions.refused(),
        };
        counts.into_iter().chain([subscriptions, memory])
    }
}

impl QuotaSeat {
    /// A seat in this book, where there is one.
    pub(crate) fn take(book: Option<&Arc<QuotaBook>>, quota: Quota) -> Result<Option<Self>, OverQuota> {
        let Some(book) = book else { return Ok(None) };
        book.enter(quota)?;
        Ok(Some(Self { book: Arc::clone(book), quota }))
    }

    /// A seat in the place of another, which is given up by whoever has it.
    pub(crate) fn take_over(book: Option<&Arc<QuotaBook>>, quota: Quota) -> Option<Self> {
        book.map(|book| book.replace(quota))
    }
}

impl Drop for QuotaSeat {
    fn drop(&mut self) {
        self.book.leave(self.quota);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T8
    #[test]
    fn one_principal_has_as_many_as_it_may_and_the_others_are_not_touched() {
        let limits = QuotaLimits { calls: 2, listens: 1, sessions: 1, subscriptions: 1, message_memory: 0 };
        let (one, other) = (QuotaBook::new("one", limits), QuotaBook::new("other", limits));
        let seats: Vec<_> = (0..2).map(|_| QuotaSeat::take(Some(&one), Quota::Calls).expect("room")).collect();
        let refused = QuotaSeat::take(Some(&one), Quota::Calls).expect_err("two is all");
        assert_eq!((refused.quota, refused.limit), (Quota::Calls, 2));
        assert!(refused.to_string().contains("`calls` of [quotas]"), "{refused}");
        assert!(
            QuotaSeat::take(Some(&one), Quota::Listens).is_ok() && QuotaSeat::take(Some(&other), Quota::Calls).is_ok()
        );
        let calls = |book: &QuotaBook| book.measures().next().map(|measure| (measure.used, measure.refused));
        assert_eq!((calls(&one), calls(&other)), (Some((2, 1)), Some((0, 0))));
        drop(seats);
        assert_eq!(calls(&one), Some((0, 1)));
        assert!(
            QuotaSeat::take(None, Quota::Calls).is_ok_and(|seat| seat.is_none()),
            "nobody is counted without a book"
        );
    }
}
