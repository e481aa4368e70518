//! One call that waits for its client.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_wire::RawId;

use super::{AskedInput, Fate, NewPark, ParkCommand, ParkLimits, ParkedAnswer, RetryFault, SeatId, SeatOutcome};
use crate::LinkKey;
use crate::calls::CallId;

#[derive(Debug)]
pub(super) struct Park {
    pub(super) principal: Arc<str>,
    pub(super) call: CallId,
    pub(super) link: LinkKey,
    until: Instant,
    /// Bytes of the request, which whoever follows the call keeps.
    request: usize,
    /// The round that was handed out last.
    round: u32,
    state: ParkState,
    questions: Vec<ParkedQuestion>,
    /// Keys are never used twice, so that a late answer can not meet another question.
    next_key: u32,
    seats: Vec<SeatId>,
    /// The newest progress that nobody was there to see.
    progress: Option<Bytes>,
}

#[derive(Debug)]
enum ParkState {
    /// Nobody has come back with the round yet.
    Awaiting { due: Instant },
    /// The round was taken, and its server works.
    Running,
    /// Nobody wants it any more, and its server was told.
    Cancelled,
    /// The call is over.
    Done { answer: Arc<ParkedAnswer>, taken: bool, due: Instant },
}

#[derive(Debug)]
struct ParkedQuestion {
    key: Box<str>,
    asked: AskedInput,
    /// Whether it is part of the round that was handed out.
    shown: bool,
}

impl Park {
    pub(super) fn new(new: NewPark) -> Self {
        let NewPark { principal, call, link, until, request } = new;
        // `hand_out` follows at once and sets the time.
        let state = ParkState::Awaiting { due: until };
        let (questions, seats) = (Vec::new(), Vec::new());
        Self { principal, call, link, until, request, round: 0, state, questions, next_key: 0, seats, progress: None }
    }

    pub(super) fn bytes(&self) -> usize {
        let asked: usize = self.questions.iter().map(|question| question.asked.request.len()).sum();
        let kept = match &self.state {
            ParkState::Done { answer, .. } => answer.response.len(),
            _ => self.request,
        };
        asked + kept + self.progress.as_ref().map_or(0, Bytes::len)
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, ParkState::Running)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, ParkState::Cancelled | ParkState::Done { .. })
    }

    /// Whether its client has got the answer.
    pub(super) fn was_told(&self) -> bool {
        matches!(self.state, ParkState::Done { taken: true, .. })
    }

    /// Whether progress is kept for whoever comes back, because nobody is there to see it.
    pub(super) fn keeps_progress(&self) -> bool {
        self.seats.is_empty() && !self.is_over()
    }

    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    pub(super) fn has_asked(&self, id: &RawId) -> bool {
        self.questions.iter().any(|question| question.asked.id == *id)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            ParkState::Awaiting { due } | ParkState::Done { due, .. } => Some(due),
            ParkState::Running | ParkState::Cancelled => None,
        }
    }

    pub(super) fn refusal(&self, id: RawId, method: Box<str>) -> ParkCommand {
        ParkCommand::Refuse { link: self.link, id, method }
    }

    /// Takes questions in; those beyond the bound, and a second one under the same id, are refused.
    pub(super) fn add(&mut self, asked: Vec<AskedInput>, most: usize) -> Vec<ParkCommand> {
        let mut refused = Vec::new();
        for asked in asked {
            if self.questions.len() >= most || self.has_asked(&asked.id) {
                refused.push(self.refusal(asked.id, asked.method));
                continue;
            }
            self.next_key += 1;
            let key = format!("q{}", self.next_key).into();
            self.questions.push(ParkedQuestion { key, asked, shown: false });
        }
        // Most ask one thing, and may wait long.
        self.questions.shrink_to_fit();
        refused
    }

    pub(super) fn withdraw(&mut self, id: &RawId) {
        self.questions.retain(|question| question.asked.id != *id);
    }

    /// The next round, with everything that is open.
    pub(super) fn hand_out(&mut self, limits: &ParkLimits, now: Instant) -> SeatOutcome {
        self.round += 1;
        self.state = ParkState::Awaiting { due: (now + limits.ttl).min(self.until) };
        for question in &mut self.questions {
            question.shown = true;
        }
        self.shown(self.until, limits)
    }

    /// The round as it was handed out.
    fn shown(&self, or: Instant, limits: &ParkLimits) -> SeatOutcome {
        let shown = self.questions.iter().filter(|question| question.shown);
        let requests = shown.map(|question| (question.key.clone(), question.asked.request.clone())).collect();
        let kept = self.until + limits.done_ttl;
        SeatOutcome::Input { round: self.round, requests, due: self.due().unwrap_or(or), kept }
    }

    /// Whoever waits is told the next round, or that there were too many.
    pub(super) fn next_round(&mut self, limits: &ParkLimits, now: Instant, commands: &mut Vec<ParkCommand>) -> Fate {
        if self.round >= limits.rounds {
            self.refuse_all(commands);
            commands.push(ParkCommand::CancelUpstream { call: self.call, reason: "asked too often" });
            self.tell_all(&SeatOutcome::Refused(RetryFault::TooManyRounds), commands);
            return Fate::Goes;
        }
        // In every other state the call is held already.
        if self.is_running() {
            commands.push(ParkCommand::Hold(self.call));
        }
        let outcome = self.hand_out(limits, now);
        self.tell_all(&outcome, commands);
        Fate::Stays
    }

    pub(super) fn retry(
        &mut self,
        round: u32,
        responses: &[(Box<str>, Bytes)],
        seat: SeatId,
        limits: &ParkLimits,
        now: Instant,
        commands: &mut Vec<ParkCommand>,
    ) -> Fate {
        let tell = |outcome| ParkCommand::Tell { seat, outcome };
        let is_current = round == self.round;
        // The round before is settled by the one that was handed out for it.
        let is_before = round + 1 == self.round;
        match &self.state {
            ParkState::Cancelled => commands.push(tell(SeatOutcome::Refused(RetryFault::Lost))),
            ParkState::Awaiting { .. } if is_current => return self.take(responses, seat, limits, now, commands),
            ParkState::Awaiting { .. } if is_before => commands.push(tell(self.shown(now, limits))),
            ParkState::Running if is_current && self.seats.len() >= limits.seats => {
                commands.push(tell(SeatOutcome::Refused(RetryFault::TooManyWaiting)));
            }
            ParkState::Running if is_current => self.sit_down(seat, commands),
            // Of the round before, too, while nobody has the answer: its client may never have got the round after it.
            ParkState::Done { answer, taken, .. } if is_current || is_before && !taken => {
                commands.push(tell(SeatOutcome::Answer(Arc::clone(answer))));
                self.told(limits, now);
            }
            _ => commands.push(tell(SeatOutcome::Refused(RetryFault::OlderRound))),
        }
        Fate::Stays
    }

    /// The first retry of a round: its answers go to the server.
    fn take(
        &mut self,
        responses: &[(Box<str>, Bytes)],
        seat: SeatId,
        limits: &ParkLimits,
        now: Instant,
        commands: &mut Vec<ParkCommand>,
    ) -> Fate {
        let given = |key: &str| responses.iter().find(|(name, _)| **name == *key).map(|(_, response)| response.clone());
        let mut answers = Vec::new();
        let mut open = Vec::new();
        for question in std::mem::take(&mut self.questions) {
            // Keys can be guessed, and what was not asked yet can not be answered.
            match given(&question.key).filter(|_| question.shown) {
                Some(response) => {
                    let AskedInput { id, method, .. } = question.asked;
                    answers.push(ParkCommand::Answer { link: self.link, id, method, response });
                }
                None => open.push(question),
            }
        }
        self.questions = open;
        if self.questions.is_empty() {
            // Before the answers: what the server asks next must find the clock running.
            commands.push(ParkCommand::Resume(self.call));
            commands.append(&mut answers);
            self.state = ParkState::Running;
            self.sit_down(seat, commands);
            return Fate::Stays;
        }
        commands.append(&mut answers);
        self.seats.push(seat);
        self.next_round(limits, now, commands)
    }

    fn sit_down(&mut self, seat: SeatId, commands: &mut Vec<ParkCommand>) {
        self.seats.push(seat);
        if let Some(message) = self.progress.take() {
            commands.push(ParkCommand::Show { seat, message });
        }
    }

    pub(super) fn leave(&mut self, seat: SeatId, commands: &mut Vec<ParkCommand>) {
        let before = self.seats.len();
        self.seats.retain(|other| *other != seat);
        // Who was told has left its seat before. Nobody else waits: the client closed its retry.
        if self.seats.len() < before && self.seats.is_empty() && self.is_running() {
            self.state = ParkState::Cancelled;
            commands.push(ParkCommand::CancelUpstream { call: self.call, reason: "the client is gone" });
        }
    }

    /// Says whether a notification is lost with it: this one, or the one whose place it takes.
    pub(super) fn show(&mut self, message: Bytes, may_be_kept: bool, commands: &mut Vec<ParkCommand>) -> bool {
        if self.seats.is_empty() {
            return !may_be_kept || self.progress.replace(message).is_some();
        }
        commands.extend(self.seats.iter().map(|seat| ParkCommand::Show { seat: *seat, message: message.clone() }));
        false
    }

    pub(super) fn finish(
        &mut self,
        answer: Arc<ParkedAnswer>,
        fits: bool,
        limits: &ParkLimits,
        now: Instant,
        commands: &mut Vec<ParkCommand>,
    ) -> Fate {
        // It was cancelled because nobody waited, so nobody is left to tell.
        if matches!(self.state, ParkState::Cancelled) {
            return Fate::Goes;
        }
        // What was asked is moot: the server has gone on without.
        self.questions.clear();
        self.progress = None;
        // Before `tell_all`, which empties the seats.
        let taken = !self.seats.is_empty();
        let due = match self.state {
            // Nobody has come back yet: the client has the time that it was told.
            ParkState::Awaiting { due } => due,
            _ => now + limits.done_ttl,
        };
        self.tell_all(&SeatOutcome::Answer(Arc::clone(&answer)), commands);
        // Without room the client that comes back is told that the call is not here any more, and that is true.
        if !fits {
            return Fate::Goes;
        }
        self.state = ParkState::Done { answer, taken, due };
        Fate::Stays
    }

    /// The client has its answer: from now on it is kept only for one that asks again.
    fn told(&mut self, limits: &ParkLimits, now: Instant) {
        if let ParkState::Done { taken, due, .. } = &mut self.state
            && !*taken
        {
            (*taken, *due) = (true, (now + limits.done_ttl).max(*due));
        }
    }

    pub(super) fn expire(&mut self, now: Instant, commands: &mut Vec<ParkCommand>) -> Fate {
        match self.state {
            ParkState::Awaiting { due } if due <= now => {
                self.refuse_all(commands);
                commands.push(ParkCommand::CancelUpstream { call: self.call, reason: "the client did not come back" });
                Fate::Goes
            }
            ParkState::Done { due, .. } if due <= now => Fate::Goes,
            _ => Fate::Stays,
        }
    }

    pub(super) fn refuse_all(&mut self, commands: &mut Vec<ParkCommand>) {
        for question in std::mem::take(&mut self.questions) {
            commands.push(self.refusal(question.asked.id, question.asked.method));
        }
    }

    pub(super) fn tell_all(&mut self, outcome: &SeatOutcome, commands: &mut Vec<ParkCommand>) {
        let told = std::mem::take(&mut self.seats).into_iter();
        commands.extend(told.map(|seat| ParkCommand::Tell { seat, outcome: outcome.clone() }));
    }
}
