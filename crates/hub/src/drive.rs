//! A call of a legacy client that a modern server answers with questions: they are put to the client, and the call is sent again
//! with the answers, until there is a result.
//!
//! One value per call. It decides what is asked, when everything is answered, what the next round carries, and when there has been
//! enough. The wording is in `tidings_proto::question`; sending and receiving are the engine's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_proto::question::{self, InputAnswer, Unable};

/// How far a server may go with one call.
#[derive(Clone, Copy, Debug)]
pub struct DriveLimits {
    /// Rounds with questions.
    pub rounds: u32,
    /// Rounds in a row that bring nothing but a state.
    pub pauses: u32,
    /// Questions of one round.
    pub questions: usize,
}

impl Default for DriveLimits {
    fn default() -> Self {
        // With the growing pauses, 64 of them are about five minutes.
        Self { rounds: 16, pauses: 64, questions: 64 }
    }
}

/// The first pause before a round that was asked for without a question, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A question of the server.
#[derive(Clone, Debug)]
pub struct DriveRequest {
    /// Under which the server wants the answer.
    pub key: Box<str>,
    /// What is asked.
    pub method: Box<str>,
    /// Whether the client can be asked it.
    pub can: Result<(), Unable>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveStep {
    /// Put these questions to the client, all at once: the id that it will see, and which of the server's requests it is.
    Ask(Vec<(u64, usize)>),
    /// There are answers to come.
    Wait,
    /// Send the call again.
    Retry {
        /// Not before this time has passed.
        after: Duration,
        /// Every key of the server with its answer; none when nothing was asked.
        responses: Vec<(Box<str>, Bytes)>,
        /// The server's state, exactly.
        state: Option<Box<str>>,
    },
    /// The call has failed.
    End(DriveFault),
}

/// Why a call can not be driven to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveFault {
    /// The server never stops asking.
    TooManyRounds,
    /// More questions in one round than are put to a client.
    TooManyQuestions,
    /// The server asks for input without a question and without a state.
    Nothing,
    /// A question has no answer, and the protocol no way to tell the server.
    Refused {
        /// What was asked.
        method: Box<str>,
        /// Why there is no answer.
        reason: String,
    },
    /// There is no time left.
    Deadline,
}

/// A call on its way through several rounds.
#[derive(Debug)]
pub struct Drive {
    limits: DriveLimits,
    until: Instant,
    rounds: u32,
    pauses: u32,
    /// The questions of this round, in the server's order.
    slots: Vec<Slot>,
    /// Which of them the client has been asked and has not answered, by the id that it sees.
    open: BTreeMap<u64, usize>,
    state: Option<Box<str>>,
}

#[derive(Debug)]
struct Slot {
    key: Box<str>,
    method: Box<str>,
    answer: Option<Bytes>,
}

impl Drive {
    /// `until`: when the client gives up waiting, whatever the server says.
    pub fn new(limits: DriveLimits, until: Instant) -> Self {
        Self { limits, until, rounds: 0, pauses: 0, slots: Vec::new(), open: BTreeMap::new(), state: None }
    }

    /// When there is no time left.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// The server answered with questions, or with nothing but a state.
    pub fn input_required(
        &mut self,
        requests: Vec<DriveRequest>,
        state: Option<Box<str>>,
        mint: &mut dyn FnMut() -> u64,
        now: Instant,
    ) -> DriveStep {
        (self.slots, self.open, self.state) = (Vec::new(), BTreeMap::new(), state);
        if now >= self.until {
            return DriveStep::End(DriveFault::Deadline);
        }
        if requests.is_empty() {
            return self.pause(now);
        }
        // Pauses count in a row: a server that asks something in between is getting on.
        (self.rounds, self.pauses) = (self.rounds + 1, 0);
        if self.rounds > self.limits.rounds {
            return DriveStep::End(DriveFault::TooManyRounds);
        }
        if requests.len() > self.limits.questions {
            return DriveStep::End(DriveFault::TooManyQuestions);
        }
        // Before anybody is asked: a user who fills in a form for a call that fails anyway was asked in vain.
        let hopeless = |request: &&DriveRequest| request.can.is_err() && *request.method != *question::ELICIT;
        if let Some(DriveRequest { method, can: Err(unable), .. }) = requests.iter().find(hopeless) {
            return DriveStep::End(DriveFault::Refused { method: method.clone(), reason: unable.to_string() });
        }
        let mut keys = BTreeSet::new();
        let mut asked = Vec::new();
        for (index, request) in requests.into_iter().enumerate() {
            // A key twice gets one answer, so it is asked once.
            if !keys.insert(request.key.clone()) {
                continue;
            }
            // Only elicitations get here that can not be put: they alone have an answer that says no.
            let answer = request.can.is_err().then(|| Bytes::from_static(question::CANCEL));
            if answer.is_none() {
                let shown = mint();
                self.open.insert(shown, self.slots.len());
                asked.push((shown, index));
            }
            self.slots.push(Slot { key: request.key, method: request.method, answer });
        }
        if asked.is_empty() { self.retry() } else { DriveStep::Ask(asked) }
    }

    /// The client answered one of the questions. Who answers twice, or what nobody asked, changes nothing.
    pub fn answered(&mut self, shown: u64, answer: InputAnswer) -> DriveStep {
        let Some(slot) = self.open.remove(&shown).and_then(|at| self.slots.get_mut(at)) else { return DriveStep::Wait };
        slot.answer = Some(match answer {
            InputAnswer::Result(result) => result,
            InputAnswer::Cancelled => Bytes::from_static(question::CANCEL),
            InputAnswer::Fatal(reason) => {
                let method = slot.method.clone();
                return DriveStep::End(DriveFault::Refused { method, reason });
            }
        });
        if self.open.is_empty() { self.retry() } else { DriveStep::Wait }
    }

    /// The method of a question that is open.
    pub fn method(&self, shown: u64) -> Option<&str> {
        self.open.get(&shown).and_then(|at| self.slots.get(*at)).map(|slot| &*slot.method)
    }

    /// The questions that the client has not answered.
    pub fn open(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }

    fn pause(&mut self, now: Instant) -> DriveStep {
        if self.state.is_none() {
            return DriveStep::End(DriveFault::Nothing);
        }
        self.pauses += 1;
        if self.pauses > self.limits.pauses {
            return DriveStep::End(DriveFault::TooManyRounds);
        }
        // More pauses are allowed than the number has bits, so the power must stop at its greatest value.
        let after = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.pauses - 1)).min(LONGEST_PAUSE);
        // Ended now and not after the pause, for which the client would wait in vain.
        if now + after >= self.until {
            return DriveStep::End(DriveFault::Deadline);
        }
        DriveStep::Retry { after, responses: Vec::new(), state: self.state.clone() }
    }

    fn retry(&mut self) -> DriveStep {
        // Each has an answer here. One without would be left out rather than made up.
        let answered = |slot: Slot| Some((slot.key, slot.answer?));
        let responses = std::mem::take(&mut self.slots).into_iter().filter_map(answered).collect();
        DriveStep::Retry { after: Duration::ZERO, responses, state: self.state.take() }
    }
}
