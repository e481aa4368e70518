//! What a legacy server-to-client stream has carried, so that a client whose connection broke can go on where it was.

mod kept;

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tidings_engine::OwedNotice;
use tidings_sync::Lock;
use tidings_wire::{Payload, one_line, sse};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use kept::KeptEvents;

use super::body::{AnswerReceipt, KEEP_ALIVE, QUIET};
use super::retention::{AnswerRetention, RetentionClaim};
use super::sessions::HttpSession;

/// How long a client should wait before it comes back, in milliseconds.
const RETRY: u64 = 1_000;

/// One stream of a session: that of a request, or the standalone one.
pub(super) struct ReplyStream {
    /// Its number in the session, which begins its event ids.
    pub(super) number: u64,
    state: Lock<ReplyStreamState>,
    changed: Notify,
}

#[derive(Default)]
struct ReplyStreamState {
    kept: KeptEvents,
    /// The connections that read it, oldest first, and the number of the last one.
    readers: BTreeSet<u64>,
    last_reader: u64,
    /// The reader that is served.
    served: u64,
    /// The server closed its stream for a while; the client is let go and comes back.
    interrupted: Option<Duration>,
    over: bool,
    delivered: bool,
    /// What waits for the answer to be written.
    handed: AnswerReceipt,
    /// Its place among the answers that are kept, once it is over.
    claim: Option<RetentionClaim>,
}

impl ReplyStream {
    pub(super) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, state: Lock::default(), changed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, ReplyStreamState> {
        self.state.lock()
    }

    pub(super) fn push(&self, message: Bytes) {
        self.add(message.into(), false);
    }

    /// Ends the stream, with the answer if there is one.
    pub(super) fn finish(&self, answer: Option<Payload>, handed: AnswerReceipt) {
        match answer {
            Some(answer) => {
                // Before the answer is there: whoever reads that takes the receipt along.
                self.lock().handed = handed;
                self.add(answer, true);
            }
            None => {
                self.lock().over = true;
                self.changed.notify_waiters();
            }
        }
    }

    pub(super) fn interrupt(&self, pause: Duration) {
        let mut state = self.lock();
        state.interrupted = Some(pause);
        drop(state);
        self.changed.notify_waiters();
    }

    fn add(&self, message: Payload, last: bool) {
        let mut state = self.lock();
        state.over |= last;
        state.kept.add(message);
        drop(state);
        // After the lock is let go: whoever wakes takes it at once.
        self.changed.notify_waiters();
    }

    /// The client no longer follows a resource: what is kept of it is not given to anybody who comes back.
    pub(super) fn forget_resource(&self, uri: &str) {
        self.lock().kept.forget_resource(uri);
    }

    /// There may be something for the newest reader to take.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// It is over: from now on what it carried counts among what is kept.
    pub(super) fn claim(&self, retention: &Arc<AnswerRetention>, session: &Arc<HttpSession>) {
        // Two steps, because the retention has a lock of its own, and its `shrink` takes the one of this stream.
        let bytes = self.lock().kept.bytes();
        let claim = retention.claim(session, self.number, bytes);
        self.lock().claim = Some(claim);
    }

    /// How many bytes count for it.
    pub(super) fn claimed(&self) -> usize {
        self.lock().claim.as_ref().map_or(0, |claim| claim.bytes)
    }

    /// It is not kept any more.
    pub(super) fn release(&self) {
        let claim = self.lock().claim.take();
        // Dropped without the lock of the stream: the claim takes that of the retention.
        drop(claim);
    }

    /// Whether it has carried nothing yet.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().kept.bytes() == 0
    }

    /// Whether it is over and a client has had all of it.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.over && state.delivered
    }

    /// The events after `after` (without it: those that nobody was given), as text. `prime`: begin with an event that
    /// only carries an id. The newest reader gets what comes from now on; older ones stay open and quiet, and the newest of
    /// them goes on when it leaves.
    pub(super) fn read(
        self: &Arc<Self>,
        after: Option<u64>,
        prime: bool,
        owed: Option<Owed>,
        closing: CancellationToken,
    ) -> impl Stream<Item = Bytes> + Send + 'static {
        let mut state = self.lock();
        state.last_reader += 1;
        let reader = state.last_reader;
        state.readers.insert(reader);
        // The newest connection is served: an older one is most likely dead, and nobody has noticed yet.
        state.served = reader;
        // Whoever comes back has had the pause.
        state.interrupted = None;
        // An id that this stream has not come to says nothing about what the client has: it may be of another life of it.
        let known = after.filter(|after| *after <= state.kept.end());
        // Without a known place it begins with what nobody was given, so that nothing comes twice.
        let next = known.unwrap_or(state.kept.carried());
        drop(state);
        self.changed.notify_waiters();
        let cursor = StreamCursor {
            stream: Arc::clone(self),
            next,
            reader,
            prime,
            ended: false,
            owed,
            handed: AnswerReceipt::default(),
            closing,
        };
        stream::unfold(cursor, |mut cursor| async move { cursor.step().await.map(|chunk| (chunk, cursor)) })
    }
}

struct StreamCursor {
    stream: Arc<ReplyStream>,
    next: u64,
    reader: u64,
    prime: bool,
    ended: bool,
    owed: Option<Owed>,
    /// Dropped with the connection that carried the answer, at its end.
    handed: AnswerReceipt,
    closing: CancellationToken,
}

/// Hands over what the client is owed, one by one; called only when there is a stream to carry it. Whoever ends a subscription
/// waits for it, so what it hands over has to be kept before it returns.
pub(super) type Owed = Box<dyn Fn(&mut dyn FnMut(OwedNotice)) + Send + Sync>;

impl Drop for StreamCursor {
    fn drop(&mut self) {
        self.stream.lock().readers.remove(&self.reader);
        // An older reader may be the newest now.
        self.stream.changed.notify_waiters();
    }
}

impl StreamCursor {
    async fn step(&mut self) -> Option<Bytes> {
        // The first event has an id and no data: a client that loses the connection before any message can resume as
        // well.
        if std::mem::take(&mut self.prime) {
            return Some(sse::encode(Some(&self.event_id(self.next)), Some(RETRY), b""));
        }
        let stream = Arc::clone(&self.stream);
        loop {
            // Before the look: `notify_waiters` keeps no permit, and a change in between would be missed.
            let changed = stream.changed.notified();
            if self.ended {
                return None;
            }
            if let Some(chunk) = self.look() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(QUIET) => return Some(Bytes::from_static(KEEP_ALIVE)),
                // Only the standalone stream has nothing to finish.
                () = self.closing.cancelled(), if stream.number == 0 => return None,
            }
        }
    }

    /// The next event, if there is one for this reader.
    fn look(&mut self) -> Option<Bytes> {
        let is_newest = |state: &ReplyStreamState| state.readers.last() == Some(&self.reader);
        // What is owed is taken when nothing else waits: what a slow reader is owed does not pile up here.
        let is_idle = {
            let mut state = self.stream.lock();
            if is_newest(&state) && state.served != self.reader {
                // What newer readers were given before they left is theirs: each message goes to one stream.
                state.served = self.reader;
                self.next = self.next.max(state.kept.carried());
            }
            is_newest(&state) && state.kept.at(self.next).is_none()
        };
        let mut took = false;
        if let Some(take) = self.owed.as_ref().filter(|_| is_idle) {
            take(&mut |notice| {
                took = true;
                // Kept like every other event: a client that comes back finds it again.
                self.stream.lock().kept.add_owed(notice.message.into(), notice.resource);
            });
        }
        let mut state = self.stream.lock();
        let newest = is_newest(&state);
        if !newest && took {
            // A newer reader came in between, and may have looked already.
            self.stream.changed.notify_waiters();
        }
        let waiting = state.kept.at(self.next).map(|(number, data, last)| (number, data.clone(), last));
        if newest && let Some((number, data, last)) = waiting {
            // By the event's own number: some may have been dropped in between.
            self.next = number + 1;
            state.kept.carry(self.next);
            if state.over && last {
                state.delivered = true;
                // Moves to the connection that carries the answer: it counts as written when that one ends.
                self.handed = std::mem::take(&mut state.handed);
                self.ended = true;
            }
            drop(state);
            // The id names the event that comes next: what a client sends back is where to go on.
            return Some(sse::encode(Some(&self.event_id(self.next)), None, &one_line(&data.to_bytes())));
        }
        // Only the newest takes it: an older reader of the same stream would throw it away.
        if newest && let Some(pause) = state.interrupted.take() {
            self.ended = true;
            drop(state);
            let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            return Some(sse::encode(Some(&self.event_id(self.next)), Some(pause), b""));
        }
        // Nothing is left and nothing will come.
        self.ended |= state.over;
        None
    }

    fn event_id(&self, sequence: u64) -> String {
        format!("{}-{sequence}", self.stream.number)
    }
}

/// Splits an event id into the stream's number and the sequence.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, sequence) = id.split_once('-')?;
    Some((stream.parse().ok()?, sequence.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt as _;

    use super::*;

    fn notice(text: &str, resource: Option<&str>) -> OwedNotice {
        OwedNotice { message: Bytes::copy_from_slice(text.as_bytes()), resource: resource.map(str::to_owned) }
    }

    /// What a client is owed, to be added to by the test.
    #[derive(Clone, Default)]
    struct Debts(Arc<Lock<Vec<(&'static str, &'static str)>>>);

    impl Debts {
        fn owe(&self, text: &'static str, resource: &'static str) {
            self.0.lock().push((text, resource));
        }

        fn read(&self, stream: &Arc<ReplyStream>, after: Option<u64>) -> impl Stream<Item = Bytes> + Unpin {
            let debts = self.clone();
            let owed: Owed = Box::new(move |give| {
                for (text, resource) in debts.0.lock().drain(..) {
                    give(notice(text, Some(resource)));
                }
            });
            Box::pin(stream.read(after, false, Some(owed), CancellationToken::new()))
        }
    }

    fn shown(event: Option<Bytes>) -> String {
        let text = String::from_utf8(event.unwrap_or_default().to_vec()).expect("text");
        text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default().to_owned()
    }

    // edges C1, bridging 34
    #[tokio::test]
    async fn the_newest_reader_that_is_still_there_is_served() {
        let (stream, debts) = (ReplyStream::new(0), Debts::default());
        let mut oldest = debts.read(&stream, None);
        let mut older = debts.read(&stream, None);
        let mut newest = debts.read(&stream, None);
        stream.push(Bytes::from_static(b"1"));
        assert_eq!(shown(newest.next().await), "1");
        drop(newest);
        debts.owe("2", "a");
        stream.wake();
        assert_eq!(shown(older.next().await), "2", "and what was given is not given again");
        // One that was not the newest leaves no gap either.
        let newest = debts.read(&stream, None);
        drop(older);
        drop(newest);
        stream.push(Bytes::from_static(b"3"));
        assert_eq!(shown(oldest.next().await), "3");
    }

    // edges C2, S1.3, bridging 18: what a slow reader was not given yet, and what one that comes back would be given again.
    #[tokio::test]
    async fn what_is_kept_of_a_resource_goes_with_its_subscription() {
        let (stream, debts) = (ReplyStream::new(0), Debts::default());
        let mut slow = debts.read(&stream, None);
        for (text, resource) in [("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b")] {
            debts.owe(text, resource);
        }
        assert_eq!(shown(slow.next().await), "a1");
        stream.forget_resource("a");
        assert_eq!([shown(slow.next().await), shown(slow.next().await)], ["b1", "b2"]);
        let mut again = debts.read(&stream, Some(0));
        assert_eq!([shown(again.next().await), shown(again.next().await)], ["b1", "b2"]);
        debts.owe("a3", "a");
        stream.wake();
        assert_eq!(shown(again.next().await), "a3", "it may follow it again");
    }

    // edges C3
    #[tokio::test]
    async fn an_event_id_ahead_of_the_stream_swallows_nothing() {
        let (stream, debts) = (ReplyStream::new(0), Debts::default());
        stream.push(Bytes::from_static(b"1"));
        let mut reader = debts.read(&stream, Some(1_000));
        assert_eq!(shown(reader.next().await), "1", "nobody was given it");
        drop(reader);
        let mut reader = debts.read(&stream, Some(u64::MAX));
        stream.push(Bytes::from_static(b"2"));
        assert_eq!(shown(reader.next().await), "2");
    }

    // bridging 27
    #[tokio::test]
    async fn what_is_owed_is_taken_only_when_nothing_else_waits_for_the_reader() {
        let stream = ReplyStream::new(0);
        let taken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&taken);
        let owed: Owed = Box::new(move |give| {
            if counter.fetch_add(1, Ordering::SeqCst) == 0 {
                give(notice("1", None));
                give(notice("2", None));
            }
        });
        stream.push(Bytes::from_static(b"0"));
        let mut reader = Box::pin(stream.read(None, false, Some(owed), CancellationToken::new()));
        for (expected, takes) in [("0", 0), ("1", 1), ("2", 1)] {
            let event = reader.next().await.unwrap_or_default();
            assert!(String::from_utf8_lossy(&event).contains(&format!("data: {expected}")), "{event:?}");
            assert_eq!(taken.load(Ordering::SeqCst), takes, "before {expected}");
        }
    }
}
