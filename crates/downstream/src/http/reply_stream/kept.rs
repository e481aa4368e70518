//! The events of one stream that are kept, by their numbers.

use std::collections::VecDeque;

use tidings_wire::Payload;

/// How much is kept for a client that is away or slow. Beyond it the oldest go, apart from answers, and from what the client is
/// owed and was not given yet: that is one batch at most, since more is taken only when nothing waits.
const EVENTS: usize = 1_000;
const BYTES: usize = 4 << 20;

#[derive(Default)]
pub(super) struct KeptEvents {
    events: VecDeque<KeptEvent>,
    bytes: usize,
    /// The number of the next event.
    next: u64,
    /// Events before this were given to some client.
    carried: u64,
}

struct KeptEvent {
    number: u64,
    owed: bool,
    /// The resource that it says has changed.
    resource: Option<Box<str>>,
    data: Payload,
}

impl KeptEvents {
    pub(super) fn add(&mut self, data: Payload) {
        self.push(KeptEvent { number: self.next, owed: false, resource: None, data });
    }

    /// Adds what the client is owed; if that is the change of a resource, of which.
    pub(super) fn add_owed(&mut self, data: Payload, resource: Option<String>) {
        self.push(KeptEvent { number: self.next, owed: true, resource: resource.map(Into::into), data });
    }

    fn push(&mut self, event: KeptEvent) {
        self.bytes += event.data.len();
        self.events.push_back(event);
        self.next += 1;
        // Both bounds: many small events cost as much as a few large ones.
        while self.events.len() > EVENTS || self.bytes > BYTES {
            let carried = self.carried;
            // Never the newest, which may be the answer.
            let older = self.events.iter().take(self.events.len() - 1);
            // What was given once may go: it is kept only for a client that lost it on the way.
            let Some(place) = older.into_iter().position(|event| !event.owed || event.number < carried) else { return };
            if let Some(old) = self.events.remove(place) {
                self.bytes -= old.data.len();
            }
        }
    }

    /// How large all that is kept is.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The event with this number, or the first that is kept after it; and whether it is the last.
    pub(super) fn at(&self, number: u64) -> Option<(u64, &Payload, bool)> {
        let place = self.events.partition_point(|event| event.number < number);
        let event = self.events.get(place)?;
        Some((event.number, &event.data, place + 1 == self.events.len()))
    }

    /// Drops the changes of a resource.
    pub(super) fn forget_resource(&mut self, uri: &str) {
        self.events.retain(|event| event.resource.as_deref() != Some(uri));
        self.bytes = self.events.iter().map(|event| event.data.len()).sum();
    }

    /// The number that the next event will have.
    pub(super) fn end(&self) -> u64 {
        self.next
    }

    /// Everything before this number was given to a client.
    pub(super) fn carry(&mut self, number: u64) {
        self.carried = self.carried.max(number);
    }

    pub(super) fn carried(&self) -> u64 {
        self.carried
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn all(kept: &KeptEvents) -> Vec<String> {
        let mut number = 0;
        let mut all = Vec::new();
        while let Some((at, data, _)) = kept.at(number) {
            all.push(String::from_utf8_lossy(&data.to_bytes()).into_owned());
            number = at + 1;
        }
        all
    }

    fn text(text: &str) -> Payload {
        Bytes::copy_from_slice(text.as_bytes()).into()
    }

    // S1.1, bridging 27
    #[test]
    fn what_is_owed_outlives_any_number_of_log_messages_until_it_was_given() {
        let mut kept = KeptEvents::default();
        kept.add_owed(text("owed 1"), None);
        kept.add_owed(text("owed 2"), None);
        for number in 0..5_000 {
            kept.add(text(&format!("log {number}")));
        }
        let seen = all(&kept);
        assert_eq!((seen.len(), &*seen[0], &*seen[1], &*seen[2]), (EVENTS, "owed 1", "owed 2", "log 4002"));
        kept.carry(1);
        kept.add(text("log 5000"));
        assert_eq!(all(&kept)[..2], ["owed 2", "log 4002"], "what was given goes like all others");
    }

    #[test]
    fn a_long_answer_is_kept_alone_with_what_is_owed() {
        let mut kept = KeptEvents::default();
        kept.add(text("log"));
        kept.add_owed(text("owed"), None);
        kept.add(text(&"x".repeat(BYTES + 1)));
        assert_eq!(all(&kept).len(), 2);
        assert!(kept.at(2).is_some_and(|(_, _, last)| last));
    }
}
