//! How much memory messages may take in all, in this process.
//!
//! Each message has a limit of its own, but many large ones at a time would still take gigabytes: bodies that are never sent to
//! their end, answers that never end, answers that nobody reads. Whoever gathers bytes for a message takes a [`BudgetLease`] and lets it
//! grow with them; where the budget is used up the message is refused, instead of growing. A lease is attached to the
//! message that came of it, and is given back when the last reference to its bytes is dropped.
//!
//! Messages up to [`FREE`] bytes are not counted: there may be many, but each is bounded by its connection's buffer, and the
//! path of an ordinary call touches nothing that all connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;

/// What each message may take without being counted; also the step in which leases grow.
pub const FREE: usize = 64 << 10;

/// The budget of this process: eight messages of the largest size at once.
pub static MESSAGES: MessageBudget = MessageBudget::new(512 << 20);

/// A number of bytes that is shared by all who hold a [`BudgetLease`].
#[derive(Debug)]
pub struct MessageBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
}

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("messages take all of the {limit} bytes of memory that are set aside for them")]
pub struct BudgetExhausted {
    /// How many bytes all messages together may hold.
    pub limit: usize,
}

/// What one peer's messages may take of a budget, so that they do not take all of it: those of a server, or of a principal.
#[derive(Debug, Default)]
pub struct BudgetShare {
    /// 0: half of the budget.
    limit: usize,
    used: AtomicUsize,
    refused: AtomicU64,
}

impl BudgetShare {
    /// At most so many bytes; 0 is half of the budget.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// How much is taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How often there was no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, more: usize, budget: usize) -> Result<(), BudgetExhausted> {
        let limit = if self.limit == 0 { budget / 2 } else { self.limit };
        let fits = |used: usize| used.checked_add(more).filter(|sum| *sum <= limit);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.map(drop).map_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            BudgetExhausted { limit }
        })
    }
}

/// A part of a budget, until it is dropped.
#[derive(Debug)]
pub struct BudgetLease {
    budget: &'static MessageBudget,
    share: Option<Arc<BudgetShare>>,
    taken: usize,
}

impl MessageBudget {
    /// So many bytes in all.
    pub const fn new(limit: usize) -> Self {
        Self { limit: AtomicUsize::new(limit), used: AtomicUsize::new(0) }
    }

    /// From now on so many bytes. What is taken already stays taken.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// A lease of no bytes yet; it grows with the message.
    pub fn lease(&'static self) -> BudgetLease {
        BudgetLease { budget: self, share: None, taken: 0 }
    }

    /// How much is taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How much more than half is taken: time to let go of as much of what nobody waits for.
    pub fn excess(&self) -> usize {
        self.used().saturating_sub(self.limit.load(Ordering::Relaxed) / 2)
    }
}

impl BudgetLease {
    /// The message has grown to this length.
    pub fn grow_to(&mut self, length: usize) -> Result<(), BudgetExhausted> {
        self.grow_within(length, None)
    }

    /// The message has grown to this length, and its peer may take only its share.
    pub fn grow_within(&mut self, length: usize, share: Option<&Arc<BudgetShare>>) -> Result<(), BudgetExhausted> {
        if length <= FREE.max(self.taken) {
            return Ok(());
        }
        // Only now: an ordinary message costs no reference to it. And only at the beginning: what is given back was taken there.
        if self.taken == 0 {
            self.share = share.cloned();
        }
        // In steps: the counter is shared by all connections, and a body comes in many small chunks.
        let more = (length - self.taken).next_multiple_of(FREE);
        let limit = self.budget.limit.load(Ordering::Relaxed);
        let fits = |used: usize| used.checked_add(more).filter(|sum| *sum <= limit);
        if let Some(share) = &self.share {
            share.take(more, limit)?;
        }
        // The counter guards no other memory: it only has to add up.
        match self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.taken += more;
                Ok(())
            }
            Err(_) => {
                self.give_back(more);
                Err(BudgetExhausted { limit })
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        if let Some(share) = &self.share {
            share.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// How much is taken for the message so far.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// All of it, for the message that is whole; what is gathered next begins anew.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self { budget: self.budget, share: self.share.take(), taken: std::mem::take(&mut self.taken) }
    }

    /// The message that was gathered: what it takes is given back with the last reference to it.
    pub fn attach(self, bytes: Bytes) -> Bytes {
        // Small messages stay plain `Bytes`, with no owner and no drop.
        if self.taken == 0 {
            return bytes;
        }
        Bytes::from_owner(LeasedBytes { bytes, _lease: self })
    }
}

impl Drop for BudgetLease {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.budget.used.fetch_sub(self.taken, Ordering::Relaxed);
            self.give_back(self.taken);
        }
    }
}

struct LeasedBytes {
    bytes: Bytes,
    _lease: BudgetLease,
}

impl AsRef<[u8]> for LeasedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T8
    #[test]
    fn one_peer_takes_its_share_and_leaves_the_rest_to_others() {
        static BUDGET: MessageBudget = MessageBudget::new(8 * FREE);
        let share = Arc::new(BudgetShare::default());
        let mut lease = BUDGET.lease();
        lease.grow_within(4 * FREE, Some(&share)).expect("half of it");
        let mut more = BUDGET.lease();
        assert_eq!(more.grow_within(2 * FREE, Some(&share)), Err(BudgetExhausted { limit: 4 * FREE }));
        BUDGET.lease().grow_to(4 * FREE).expect("the other half is for others");
        assert_eq!((share.used(), share.refused()), (4 * FREE, 1));
        drop(lease.take().attach(Bytes::from_static(b"x")));
        assert_eq!((share.used(), BUDGET.used()), (0, 0));
    }

    // edges G9
    #[test]
    fn a_message_counts_until_its_last_reference_is_gone() {
        static BUDGET: MessageBudget = MessageBudget::new(4 * FREE);
        let mut lease = BUDGET.lease();
        lease.grow_to(FREE).expect("what is small is free");
        assert_eq!(BUDGET.used(), 0);
        lease.grow_to(FREE + 1).expect("there is room");
        lease.grow_to(2 * FREE).expect("that much was taken already");
        assert_eq!(BUDGET.used(), 2 * FREE);
        let mut other = BUDGET.lease();
        assert_eq!(other.grow_to(3 * FREE), Err(BudgetExhausted { limit: 4 * FREE }));
        other.grow_to(2 * FREE).expect("a refusal takes nothing");
        drop(other);
        let message = lease.attach(Bytes::from(vec![b'x'; 2 * FREE]));
        let part = message.slice(5..6);
        drop(message);
        assert_eq!(BUDGET.used(), 2 * FREE, "a part of it keeps all of it");
        assert_eq!(&part[..], b"x");
        drop(part);
        assert_eq!(BUDGET.used(), 0);
    }

    // edges G9
    #[test]
    fn events_that_do_not_end_are_refused_when_there_is_no_room_for_them() {
        static BUDGET: MessageBudget = MessageBudget::new(8 * FREE);
        let decoder = || crate::sse::SseDecoder::with_budget(100 * FREE, &BUDGET);
        let mut endless = decoder();
        endless.push(b"data: ");
        let mut pushed = 0;
        while endless.next_event().is_ok() {
            endless.push(&[b'x'; FREE / 2]);
            pushed += 1;
        }
        assert!((15..=17).contains(&pushed), "{pushed}");
        drop(endless);
        let mut whole = decoder();
        whole.push(b"data: ");
        for _ in 0..4 {
            whole.push(&[b'x'; FREE]);
            assert_eq!(whole.next_event(), Ok(None));
        }
        whole.push(b"\n\n");
        let event = whole.next_event().ok().flatten();
        assert_eq!(event.as_ref().map(|event| event.data.len()), Some(4 * FREE));
        drop(whole);
        assert!(BUDGET.used() >= 4 * FREE, "it counts as long as somebody has it");
        drop(event);
        assert_eq!(BUDGET.used(), 0);
    }
}
