//! Who may change which servers at the moment: one change of a name at a time, in the order in which they were asked for.
//! Changes of different names do not wait for each other, so one server that is slow to start holds up nobody else.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use tidings_sync::Lock;
use tokio::sync::Notify;

/// The names that are being changed, or are about to be.
#[derive(Debug, Default)]
pub struct NameLocks {
    queue: Lock<Queue>,
    /// Rings when somebody leaves the queue.
    left: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// Everybody who has names or waits for some, the earliest first. All names of one are taken at once, so that nobody holds some
    /// while it waits for others.
    tickets: Vec<(u64, BTreeSet<String>)>,
}

/// Names that nobody else changes for as long as this is there.
#[derive(Debug)]
pub struct NameGuard<'l> {
    locks: &'l NameLocks,
    ticket: u64,
}

impl NameLocks {
    /// Waits until nobody who came earlier has or wants one of the names. Dropping this gives the place up.
    pub async fn lock(&self, names: BTreeSet<String>) -> NameGuard<'_> {
        let guard = self.draw(names);
        loop {
            // Made before the look, so that nobody leaves unheard in between.
            let left = self.left.notified();
            if self.is_first(guard.ticket) {
                return guard;
            }
            left.await;
        }
    }

    fn draw(&self, names: BTreeSet<String>) -> NameGuard<'_> {
        let mut queue = self.queue();
        let ticket = queue.next;
        queue.next += 1;
        // One ticket for all names at once, so that two changes can not each hold what the other waits for.
        queue.tickets.push((ticket, names));
        NameGuard { locks: self, ticket }
    }

    fn is_first(&self, ticket: u64) -> bool {
        let queue = self.queue();
        let Some(place) = queue.tickets.iter().position(|(other, _)| *other == ticket) else { return false };
        let names = &queue.tickets[place].1;
        queue.tickets[..place].iter().all(|(_, earlier)| earlier.is_disjoint(names))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl NameGuard<'_> {
    /// Whether all of these names are held.
    pub(crate) fn holds<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> bool {
        let queue = self.locks.queue();
        let held = queue.tickets.iter().find(|(ticket, _)| *ticket == self.ticket);
        held.is_some_and(|(_, held)| names.into_iter().all(|name| held.contains(name)))
    }
}

impl Drop for NameGuard<'_> {
    fn drop(&mut self) {
        self.locks.queue().tickets.retain(|(ticket, _)| *ticket != self.ticket);
        // All of them: several may be first now, each for its own names.
        self.locks.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    // edges F4
    #[test]
    fn a_name_is_changed_by_one_at_a_time_in_order_and_other_names_go_on() {
        let locks = NameLocks::default();
        let first = locks.lock(names(&["a"])).now_or_never().expect("nobody is there");
        assert!(first.holds(&names(&["a"])) && !first.holds(&names(&["a", "b"])));
        let mut second = pin!(locks.lock(names(&["a", "b"])));
        assert!(second.as_mut().now_or_never().is_none(), "a is held");
        let mut third = pin!(locks.lock(names(&["b"])));
        assert!(third.as_mut().now_or_never().is_none(), "the second came earlier and wants b");
        assert!(locks.lock(names(&["c"])).now_or_never().is_some(), "nobody wants c");
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        let held = second.as_mut().now_or_never().expect("its turn");
        drop(held);
        assert!(third.as_mut().now_or_never().is_some());
    }

    // edges F4
    #[test]
    fn whoever_stops_waiting_stands_in_nobodys_way() {
        let locks = NameLocks::default();
        let first = locks.lock(names(&["a"])).now_or_never().expect("nobody is there");
        {
            let mut second = Box::pin(locks.lock(names(&["a", "b"])));
            assert!(second.as_mut().now_or_never().is_none());
        }
        assert!(locks.lock(names(&["b"])).now_or_never().is_some(), "the second is gone");
        drop(first);
        assert!(locks.queue().tickets.is_empty(), "nothing is left behind");
    }
}
