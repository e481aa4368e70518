//! What several followers may follow together: those of one principal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::SubscriptionTable;
use crate::ledger::FollowerId;

/// The pairs of follower and resource that belong to one owner. Shared with whoever shows it; only the table changes it.
#[derive(Debug)]
pub struct SeatAccount {
    limit: usize,
    used: AtomicUsize,
    refused: AtomicU64,
}

impl SeatAccount {
    /// At most so many.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), refused: AtomicU64::new(0) })
    }

    /// How many there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many there are.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How often there was no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl SubscriptionTable {
    /// From now on, what this follower follows counts on this account, until it follows nothing.
    pub fn charge(&mut self, follower: FollowerId, account: &Arc<SeatAccount>) {
        // The first one stays: seats have to be given back to the account on which they were taken.
        self.accounts.entry(follower).or_insert_with(|| Arc::clone(account));
    }

    /// The bound of the follower's account, if it is reached.
    pub(super) fn reached_by(&self, follower: FollowerId) -> Option<usize> {
        let account = self.accounts.get(&follower).filter(|account| account.used() >= account.limit)?;
        account.refused.fetch_add(1, Ordering::Relaxed);
        Some(account.limit)
    }

    pub(super) fn seat_taken(&mut self, follower: FollowerId) {
        self.seats += 1;
        if let Some(account) = self.accounts.get(&follower) {
            // Relaxed: only the table writes it, under its lock. Others read it to show it.
            account.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn seat_left(&mut self, follower: FollowerId) {
        self.seats -= 1;
        if let Some(account) = self.accounts.get(&follower) {
            account.used.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
