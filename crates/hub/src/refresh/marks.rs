//! Which lists are to be listed again, and why.

use std::time::Instant;

use tidings_proto::ListKind;

/// Why a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshReason {
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
    /// A client asks for a list after a call was answered, and the server's word about what the call changed may be late, or
    /// never come.
    Call,
}

impl RefreshReason {
    /// Every reason, in the order of their numbers: metrics keep one counter for each.
    pub const ALL: [Self; 6] = [Self::Signal, Self::Poll, Self::Retry, Self::Reconnect, Self::Rejection, Self::Call];

    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Poll => "poll",
            Self::Retry => "retry",
            Self::Reconnect => "reconnect",
            Self::Rejection => "rejection",
            Self::Call => "call",
        }
    }
}

/// Why one list is to be asked for, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListMark {
    /// What made it necessary; the metrics count listings by it.
    pub reason: RefreshReason,
    /// How many signals this listing stands for.
    pub signals: u64,
    /// When the first of them came.
    pub first: Option<Instant>,
}

impl ListMark {
    /// A mark without a signal.
    pub fn new(reason: RefreshReason) -> Self {
        Self { reason, signals: 0, first: None }
    }
}

/// One mark per list; a list without one is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListMarks([Option<ListMark>; 4]);

impl ListMarks {
    /// Why a list is to be asked for, and since when; `None` where it need not be.
    pub fn get(&self, kind: ListKind) -> Option<ListMark> {
        self.0[kind as usize]
    }

    /// Whether no list is marked.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The lists that are to be asked for.
    pub fn iter(&self) -> impl Iterator<Item = (ListKind, ListMark)> + '_ {
        ListKind::ALL.into_iter().filter_map(|kind| Some((kind, self.get(kind)?)))
    }

    /// Marks a list, unless it is marked.
    pub fn mark(&mut self, kind: ListKind, reason: RefreshReason) {
        // The first reason stays: it is why the listing happens, and the metrics count by it.
        self.0[kind as usize].get_or_insert(ListMark::new(reason));
    }

    /// A signal names these lists. Tells whether it is the first for them.
    pub(super) fn signal(&mut self, kinds: &[ListKind], now: Instant) -> bool {
        let mut first = false;
        for kind in kinds {
            let mark = self.0[*kind as usize].get_or_insert(ListMark::new(RefreshReason::Signal));
            // Whatever else there is: the signal alone is reason enough.
            mark.reason = RefreshReason::Signal;
            mark.signals += 1;
            first |= mark.signals == 1;
            mark.first.get_or_insert(now);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // S3.2
    #[test]
    fn signals_are_counted_from_the_first() {
        let mut marks = ListMarks::default();
        let now = Instant::now();
        assert!(marks.signal(&[ListKind::Tools], now));
        for later in 1..5 {
            assert!(!marks.signal(&[ListKind::Tools], now + Duration::from_secs(later)));
        }
        assert!(marks.signal(&[ListKind::Prompts], now));
        assert_eq!(
            marks.get(ListKind::Tools),
            Some(ListMark { reason: RefreshReason::Signal, signals: 5, first: Some(now) })
        );
        assert_eq!(marks.iter().map(|(kind, _)| kind).collect::<Vec<_>>(), [ListKind::Tools, ListKind::Prompts]);
    }

    #[test]
    fn a_signal_is_reason_enough_whatever_else_there_is() {
        let mut marks = ListMarks::default();
        marks.mark(ListKind::Tools, RefreshReason::Poll);
        marks.mark(ListKind::Prompts, RefreshReason::Poll);
        marks.mark(ListKind::Prompts, RefreshReason::Retry);
        assert!(marks.signal(&[ListKind::Tools], Instant::now()));
        marks.mark(ListKind::Tools, RefreshReason::Reconnect);
        let reason = |kind| marks.get(kind).map(|mark| mark.reason);
        assert_eq!(reason(ListKind::Tools), Some(RefreshReason::Signal));
        assert_eq!(reason(ListKind::Prompts), Some(RefreshReason::Poll), "the first that came");
        assert_eq!(reason(ListKind::Resources), None);
    }
}
