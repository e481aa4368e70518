//! What servers of 2025-11-25 ask for tasks whose clients know the extension of 2026-07-28. There a question stands inside the task
//! until the client sends its answer; here it waits for that.
//!
//! A server asks only while somebody waits for the outcome of the task, so a desk is open for as long as that is. Each question is
//! replied to at most once: by its answer, or by a refusal when the desk is closed or has no room. Keys are never used twice.
//!
//! Not here: who waits for the outcome, and the wording of questions and replies (`engine/call/held_outcome.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_wire::RawId;

use crate::LinkKey;
use crate::parks::AskedInput;
use crate::tasks::TaskKey;

/// Bounds on what waits.
#[derive(Clone, Copy, Debug)]
pub struct TaskQuestionLimits {
    /// Open desks of one principal.
    pub per_principal: usize,
    /// Open desks altogether.
    pub total: usize,
    /// Questions of one task at a time.
    pub questions: usize,
    /// Bytes of all questions. One principal may take half of them.
    pub bytes: usize,
}

impl Default for TaskQuestionLimits {
    fn default() -> Self {
        Self { per_principal: 256, total: 1_024, questions: 64, bytes: 64 << 20 }
    }
}

/// What a server is to be told about a question of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReply {
    /// Where it asked.
    pub link: LinkKey,
    /// Its id there.
    pub id: RawId,
    /// What it asked for.
    pub method: Box<str>,
    /// The client's answer; without one it is refused.
    pub answer: Option<Bytes>,
}

/// There is no room for another desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyDesks {
    /// How many there may be.
    pub limit: usize,
}

struct WaitingQuestion {
    link: LinkKey,
    asked: AskedInput,
}

struct TaskDesk {
    principal: Arc<str>,
    /// By the number of its key, and so in the order in which they were asked.
    open: BTreeMap<u64, WaitingQuestion>,
    bytes: usize,
    /// When the client was last there.
    seen: Instant,
}

/// The open desks.
pub struct TaskQuestions {
    limits: TaskQuestionLimits,
    desks: HashMap<TaskKey, TaskDesk>,
    next_key: u64,
    bytes: usize,
}

fn key_of(number: u64) -> Box<str> {
    format!("q{number}").into()
}

fn number_of(key: &str) -> Option<u64> {
    // Only as it is written: `q01` is not `q1`.
    key.strip_prefix('q')?.parse().ok().filter(|number| *key == *key_of(*number))
}

fn refused(question: WaitingQuestion) -> TaskReply {
    let WaitingQuestion { link, asked } = question;
    TaskReply { link, id: asked.id, method: asked.method, answer: None }
}

impl TaskQuestions {
    /// No desk is open.
    pub fn new(limits: TaskQuestionLimits) -> Self {
        Self { limits, desks: HashMap::new(), next_key: 1, bytes: 0 }
    }

    /// How many desks are open.
    pub fn len(&self) -> usize {
        self.desks.len()
    }

    /// Whether no desk is open.
    pub fn is_empty(&self) -> bool {
        self.desks.is_empty()
    }

    /// How many bytes of questions wait.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Somebody wants the outcome of a task. Tells whether its desk is new: then the outcome has to be waited for.
    pub fn open(&mut self, key: &TaskKey, principal: &Arc<str>, now: Instant) -> Result<bool, TooManyDesks> {
        if let Some(desk) = self.desks.get_mut(key) {
            desk.seen = now;
            return Ok(false);
        }
        // A walk over all desks, which are few: there is one only while somebody waits for an outcome.
        let of_principal = self.desks.values().filter(|desk| desk.principal == *principal).count();
        let (own, all) = (self.limits.per_principal, self.limits.total);
        if of_principal >= own || self.desks.len() >= all {
            return Err(TooManyDesks { limit: own.min(all) });
        }
        let desk = TaskDesk { principal: Arc::clone(principal), open: BTreeMap::new(), bytes: 0, seen: now };
        self.desks.insert(key.clone(), desk);
        Ok(true)
    }

    /// The server of a task asks. Gives the reply where there is no room for the question.
    pub fn asked(&mut self, key: &TaskKey, link: LinkKey, asked: AskedInput) -> Option<TaskReply> {
        let len = asked.request.len();
        let question = WaitingQuestion { link, asked };
        let Some(principal) = self.desks.get(key).map(|desk| Arc::clone(&desk.principal)) else {
            return Some(refused(question));
        };
        let of_principal: usize =
            self.desks.values().filter(|desk| desk.principal == principal).map(|desk| desk.bytes).sum();
        let fits = self.bytes.saturating_add(len) <= self.limits.bytes
            && of_principal.saturating_add(len) <= self.limits.bytes / 2;
        match self.desks.get_mut(key).filter(|desk| fits && desk.open.len() < self.limits.questions) {
            Some(desk) => {
                desk.open.insert(self.next_key, question);
                self.next_key += 1;
                desk.bytes += len;
                self.bytes += len;
                None
            }
            None => Some(refused(question)),
        }
    }

    /// What is open of a task, by the keys under which answers are expected. Its client is there.
    pub fn shown(&mut self, key: &TaskKey, now: Instant) -> Vec<(Box<str>, Bytes)> {
        let Some(desk) = self.desks.get_mut(key) else { return Vec::new() };
        desk.seen = now;
        desk.open.iter().map(|(number, question)| (key_of(*number), question.asked.request.clone())).collect()
    }

    /// Whether something is open of a task.
    pub fn is_asking(&self, key: &TaskKey) -> bool {
        self.desks.get(key).is_some_and(|desk| !desk.open.is_empty())
    }

    /// The client answers. Keys that are not open are passed over: what they asked was answered, or never asked.
    pub fn answered(&mut self, key: &TaskKey, responses: &[(Box<str>, Bytes)], now: Instant) -> Vec<TaskReply> {
        let Some(desk) = self.desks.get_mut(key) else { return Vec::new() };
        desk.seen = now;
        let mut replies = Vec::new();
        for (given, response) in responses {
            let Some(question) = number_of(given).and_then(|number| desk.open.remove(&number)) else { continue };
            desk.bytes -= question.asked.request.len();
            self.bytes -= question.asked.request.len();
            replies.push(TaskReply { answer: Some(response.clone()), ..refused(question) });
        }
        replies
    }

    /// The server takes a question back. Tells whether it was open.
    pub fn withdrawn(&mut self, link: LinkKey, id: &RawId) -> bool {
        for desk in self.desks.values_mut() {
            let found = desk.open.iter().find(|(_, question)| question.link == link && question.asked.id == *id);
            if let Some(question) = found.map(|(number, _)| *number).and_then(|number| desk.open.remove(&number)) {
                desk.bytes -= question.asked.request.len();
                self.bytes -= question.asked.request.len();
                return true;
            }
        }
        false
    }

    /// When the client of a task was last there.
    pub fn last_seen(&self, key: &TaskKey) -> Option<Instant> {
        self.desks.get(key).map(|desk| desk.seen)
    }

    /// Nobody waits for the outcome any more. What is open then is refused.
    pub fn close(&mut self, key: &TaskKey) -> Vec<TaskReply> {
        let Some(desk) = self.desks.remove(key) else { return Vec::new() };
        self.bytes -= desk.bytes;
        desk.open.into_values().map(refused).collect()
    }
}
