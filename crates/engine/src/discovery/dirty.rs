//! What is to be listed again, and why.

use std::time::Instant;

use tidings_proto::ListKind;

/// Why a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server said that it changed.
    Signal,
    /// The server does not say when it changes.
    Poll,
    /// The last listing failed.
    Retry,
    /// There is a new link, or a new stream of signals, and nobody heard what happened before it.
    Reconnect,
    /// A server rejected a call unread, because what is known of its tools is old.
    Rejection,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Signal, Self::Poll, Self::Retry, Self::Reconnect, Self::Rejection];

    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Poll => "poll",
            Self::Retry => "retry",
            Self::Reconnect => "reconnect",
            Self::Rejection => "rejection",
        }
    }
}

/// Why one list is to be asked for, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) reason: Reason,
    /// How many signals this listing stands for.
    pub(crate) signals: u64,
    /// When the first of them came.
    pub(crate) first: Option<Instant>,
}

impl Mark {
    pub(crate) fn new(reason: Reason) -> Self {
        Self { reason, signals: 0, first: None }
    }
}

/// One mark per list; a list without one is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks([Option<Mark>; 4]);

impl Marks {
    pub(crate) fn get(&self, kind: ListKind) -> Option<Mark> {
        self.0[kind as usize]
    }

    /// The lists that are to be asked for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ListKind, Mark)> + '_ {
        ListKind::ALL.into_iter().filter_map(|kind| Some((kind, self.get(kind)?)))
    }

    /// Marks a list, unless it is marked.
    pub(crate) fn mark(&mut self, kind: ListKind, reason: Reason) {
        self.0[kind as usize].get_or_insert(Mark::new(reason));
    }

    /// A signal names these lists. Tells whether it is the first for them.
    fn signal(&mut self, kinds: &[ListKind], now: Instant) -> bool {
        let mut first = false;
        for kind in kinds {
            let mark = self.0[*kind as usize].get_or_insert(Mark::new(Reason::Signal));
            // Whatever else there is: the signal alone is reason enough.
            mark.reason = Reason::Signal;
            mark.signals += 1;
            first |= mark.signals == 1;
            mark.first.get_or_insert(now);
        }
        first
    }
}

/// What is to be listed again, and how many listings have begun.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    marks: Marks,
    listings: u64,
}

impl Dirty {
    /// Marks lists. Tells the number of the listing that will see to it.
    pub(crate) fn mark(&mut self, kinds: &[ListKind], reason: Reason) -> u64 {
        kinds.iter().for_each(|kind| self.marks.mark(*kind, reason));
        self.listings + 1
    }

    /// A signal has come. Tells whether it is the first since these lists were last asked for.
    pub(crate) fn signal(&mut self, kinds: &[ListKind], now: Instant) -> bool {
        self.marks.signal(kinds, now)
    }

    /// Begins a listing: its number, and what is to be listed.
    pub(crate) fn take(&mut self) -> (u64, Marks) {
        self.listings += 1;
        (self.listings, std::mem::take(&mut self.marks))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // S3.2
    #[test]
    fn signals_are_counted_from_the_first_until_the_listing_begins() {
        let mut dirty = Dirty::default();
        let now = Instant::now();
        assert!(dirty.signal(&[ListKind::Tools], now));
        for later in 1..5 {
            assert!(!dirty.signal(&[ListKind::Tools], now + Duration::from_secs(later)));
        }
        assert!(dirty.signal(&[ListKind::Prompts], now));
        let (number, marks) = dirty.take();
        assert_eq!(number, 1);
        assert_eq!(marks.get(ListKind::Tools), Some(Mark { reason: Reason::Signal, signals: 5, first: Some(now) }));
        assert_eq!(marks.iter().map(|(kind, _)| kind).collect::<Vec<_>>(), [ListKind::Tools, ListKind::Prompts]);
        assert!(dirty.signal(&[ListKind::Tools], now), "what comes during a listing is for the next one");
        assert_eq!(dirty.take().0, 2);
        assert_eq!(dirty.take(), (3, Marks::default()));
    }

    #[test]
    fn a_signal_is_reason_enough_whatever_else_there_is() {
        let mut dirty = Dirty::default();
        assert_eq!(dirty.mark(&[ListKind::Tools, ListKind::Prompts], Reason::Poll), 1);
        dirty.mark(&[ListKind::Prompts], Reason::Retry);
        assert!(dirty.signal(&[ListKind::Tools], Instant::now()));
        dirty.mark(&[ListKind::Tools], Reason::Reconnect);
        let (_, marks) = dirty.take();
        let reason = |kind| marks.get(kind).map(|mark| mark.reason);
        assert_eq!(reason(ListKind::Tools), Some(Reason::Signal));
        assert_eq!(reason(ListKind::Prompts), Some(Reason::Poll), "the first that came");
        assert_eq!(reason(ListKind::Resources), None);
    }
}
