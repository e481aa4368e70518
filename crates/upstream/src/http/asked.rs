//! Questions that a server asked on the stream of a call, until their answers have arrived.
//!
//! An answer travels on a connection of its own. One that can not be delivered leaves the call waiting for nothing, so the call is failed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidings_sync::Lock;
use tidings_wire::RawId;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::LinkError;

/// How long the server of a call may still answer it after an answer to its question was lost. It may have stopped waiting for that
/// and gone on: a late answer is then refused while the outcome of the call is on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The open questions of one link, by the ids that the server gave them.
#[derive(Default)]
pub(super) struct AskedQuestions(Lock<HashMap<RawId, Arc<LostAnswer>>>);

/// Where a call hears that an answer of its client was lost.
#[derive(Default)]
struct LostAnswer {
    first: OnceLock<(LinkError, Instant)>,
    /// For the one reader of the call.
    bell: Notify,
}

impl AskedQuestions {
    /// The answer has arrived: the call waits for its server again.
    pub(super) fn answered(&self, question: &RawId) {
        self.0.lock().remove(question);
    }

    /// The answer can not be delivered.
    pub(super) fn lost(&self, question: &RawId, error: &LinkError) {
        // In a statement of its own, so that the lock is not held while the call is woken.
        let call = self.0.lock().remove(question);
        if let Some(call) = call {
            let _ = call.first.set((LinkError::AnswerLost(error.for_clients()), Instant::now()));
            call.bell.notify_one();
        }
    }
}

/// What one call was asked. Nothing of it is left when the call is over.
pub(super) struct QuestionsOfCall {
    of_link: Arc<AskedQuestions>,
    /// Those that are open, and those that were answered since the last one was asked.
    ids: Vec<RawId>,
    heard: Arc<LostAnswer>,
}

impl QuestionsOfCall {
    pub(super) fn new(of_link: &Arc<AskedQuestions>) -> Self {
        Self { of_link: Arc::clone(of_link), ids: Vec::new(), heard: Arc::default() }
    }

    pub(super) fn add(&mut self, question: RawId) {
        let mut asked = self.of_link.0.lock();
        // A call may be asked again and again for as long as it runs.
        self.ids.retain(|id| asked.contains_key(id));
        asked.insert(question.clone(), Arc::clone(&self.heard));
        drop(asked);
        self.ids.push(question);
    }

    /// Waits until an answer is lost, and its server has had the time to answer the call all the same. May be dropped at any time.
    pub(super) async fn lost(&self) -> LinkError {
        loop {
            if let Some((error, at)) = self.heard.first.get() {
                tokio::time::sleep_until(*at + LAST_WORDS).await;
                return error.clone();
            }
            self.heard.bell.notified().await;
        }
    }
}

impl Drop for QuestionsOfCall {
    fn drop(&mut self) {
        let mut asked = self.of_link.0.lock();
        for id in &self.ids {
            // A server may have used the id again for another call.
            if asked.get(id).is_some_and(|call| Arc::ptr_eq(call, &self.heard)) {
                asked.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn id(text: &str) -> RawId {
        RawId::from_raw(text.as_bytes()).unwrap()
    }

    fn lose(link: &AskedQuestions, question: &str) {
        link.lost(&id(question), &LinkError::Status { status: 400, body: None });
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_hears_of_its_own_lost_answer_after_the_time_for_last_words() {
        let link = Arc::new(AskedQuestions::default());
        let (mut one, mut other) = (QuestionsOfCall::new(&link), QuestionsOfCall::new(&link));
        one.add(id("1"));
        other.add(id("\"1\""));
        lose(&link, "1");
        // Between the two the reader does something else.
        assert_eq!(one.lost().now_or_never(), None, "its server may have answered the call");
        tokio::time::advance(LAST_WORDS).await;
        let told = one.lost().await.to_string();
        assert_eq!(told, "asked something and could not be told the answer: answered with HTTP status 400");
        assert_eq!(other.lost().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_answered_or_is_over_is_forgotten() {
        let link = Arc::new(AskedQuestions::default());
        let mut call = QuestionsOfCall::new(&link);
        for question in ["1", "2", "3"] {
            call.add(id(question));
            link.answered(&id(question));
        }
        assert_eq!(call.ids.len(), 1, "answered questions are not gathered");
        lose(&link, "3");
        assert_eq!(call.lost().now_or_never(), None, "it had arrived already");
        call.add(id("4"));
        let mut next = QuestionsOfCall::new(&link);
        // A server that counts anew.
        next.add(id("4"));
        drop(call);
        assert_eq!(link.0.lock().len(), 1, "the question of the other call stays");
        drop(next);
        assert!(link.0.lock().is_empty());
    }
}
