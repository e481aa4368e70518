//! Answers that are kept for clients whose connection broke: how many bytes of them, and which go first.
//!
//! A disconnect is no cancellation in the old era, so an answer may come when nobody is there to take it. It is kept until
//! its client has come back for it, or the session ends. Beyond the byte budget of a session, and that of all sessions, the oldest
//! answers go first; the newest is kept whatever its size. Who comes back for an answer that is gone gets the standalone
//! stream in its place, as for every stream that is no longer known.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, Weak};

use tidings_sync::Lock;

use super::sessions::HttpSession;

/// How many bytes of answers are kept for resumption.
#[derive(Clone, Copy, Debug)]
pub struct KeptBytes {
    /// For one session: a single client can not take the room of the others.
    pub session: usize,
    /// For all of them.
    pub all: usize,
}

impl Default for KeptBytes {
    fn default() -> Self {
        Self { session: 64 << 20, all: 256 << 20 }
    }
}

/// What is kept for all sessions, by age.
pub(super) struct AnswerRetention {
    limits: KeptBytes,
    kept: Lock<RetainedAnswers>,
}

#[derive(Default)]
struct RetainedAnswers {
    next: u64,
    bytes: usize,
    answers: BTreeMap<u64, KeptAnswer>,
}

struct KeptAnswer {
    session: Weak<HttpSession>,
    stream: u64,
    bytes: usize,
}

/// The place of one answer among those that are kept, until it is dropped.
pub(super) struct RetentionClaim {
    retention: Arc<AnswerRetention>,
    number: u64,
    pub(super) bytes: usize,
}

impl AnswerRetention {
    pub(super) fn new(limits: KeptBytes) -> Arc<Self> {
        Arc::new(Self { limits, kept: Lock::default() })
    }

    fn lock(&self) -> MutexGuard<'_, RetainedAnswers> {
        self.kept.lock()
    }

    /// How much one session may keep.
    pub(super) fn session_limit(&self) -> usize {
        self.limits.session
    }

    /// One more answer is kept.
    pub(super) fn claim(self: &Arc<Self>, session: &Arc<HttpSession>, stream: u64, bytes: usize) -> RetentionClaim {
        let mut kept = self.lock();
        let number = kept.next;
        kept.next += 1;
        kept.bytes += bytes;
        // Weak: what is kept for a session must not keep the session.
        kept.answers.insert(number, KeptAnswer { session: Arc::downgrade(session), stream, bytes });
        RetentionClaim { retention: Arc::clone(self), number, bytes }
    }

    /// Lets the oldest go until the rest fits.
    pub(super) fn shrink(&self) {
        loop {
            let oldest = {
                let kept = self.lock();
                // The newest stays whatever its size: an answer that was just made must be there for its client.
                let one_is_left = kept.answers.len() <= 1;
                let oldest = kept.answers.first_key_value().filter(|_| kept.bytes > self.limits.all && !one_is_left);
                oldest.map(|(number, answer)| (*number, answer.session.upgrade(), answer.stream))
            };
            // The session has locks of its own, and letting go of an answer takes the one here.
            match oldest {
                None => return,
                // The session may have dropped it already; then only the count is mended.
                Some((_, Some(session), stream)) if session.forget_stream(stream) => {}
                Some((number, ..)) => self.release(number),
            }
        }
    }

    fn release(&self, number: u64) {
        let mut kept = self.lock();
        if let Some(answer) = kept.answers.remove(&number) {
            kept.bytes -= answer.bytes;
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.lock().bytes
    }
}

impl Drop for RetentionClaim {
    fn drop(&mut self) {
        self.retention.release(self.number);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::body::AnswerReceipt;
    use super::super::sessions::HttpSessions;
    use super::*;

    /// An answer of this many bytes that nobody takes; the number of its stream.
    fn keep(session: &Arc<HttpSession>, bytes: usize) -> u64 {
        let stream = session.new_stream();
        session.keep(&stream);
        stream.finish(Some(Bytes::from(vec![b'x'; bytes]).into()), AnswerReceipt::default());
        session.retain(&stream);
        stream.number
    }

    fn kept(session: &Arc<HttpSession>, streams: &[u64]) -> Vec<bool> {
        streams.iter().map(|number| session.stream(*number).is_some()).collect()
    }

    // edges C14
    #[test]
    fn of_the_answers_of_a_session_that_nobody_fetches_the_oldest_go_first() {
        let sessions = HttpSessions::new(10, KeptBytes { session: 100, all: 1_000 });
        let session = sessions.make();
        let streams: Vec<u64> = [40, 40, 40, 90].map(|bytes| keep(&session, bytes)).to_vec();
        assert_eq!(kept(&session, &streams), [false, false, false, true]);
        let large = keep(&session, 500);
        assert_eq!(kept(&session, &[streams[3], large]), [false, true], "the newest is kept whatever its size");
        assert_eq!(sessions.retention().bytes(), 500);
        drop(session);
        assert_eq!(sessions.retention().bytes(), 0, "all of it goes with the session");
    }

    // edges C14
    #[test]
    fn of_the_answers_of_all_sessions_that_nobody_fetches_the_oldest_go_first() {
        let sessions = HttpSessions::new(10, KeptBytes { session: 100, all: 150 });
        let (first, second, third) = (sessions.make(), sessions.make(), sessions.make());
        let (a, b, c) = (keep(&first, 60), keep(&second, 60), keep(&first, 30));
        assert_eq!((kept(&first, &[a, c]), kept(&second, &[b])), (vec![true, true], vec![true]));
        let d = keep(&third, 50);
        assert_eq!((kept(&first, &[a, c]), kept(&second, &[b])), (vec![false, true], vec![true]));
        assert_eq!((kept(&third, &[d]), sessions.retention().bytes()), (vec![true], 140));
    }
}
