//! A modern server asks a legacy client: what it wants to know is put to the client, and the call is sent again with the answers.
//!
//! The hub's `Drive` decides; here are the effects. Between two rounds nothing of the call is at its server, and it can be cancelled
//! like one that has just arrived.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::calls::CallHistory;
use tidings_hub::drive::{Drive, DriveFault, DriveLimits, DriveRequest, DriveStep};
use tidings_proto::outbound::{RequestChanges, StateChange};
use tidings_proto::outcome::{self, ClientAnswer};
use tidings_proto::question::{self, InputAnswer, InputRequired, Needs};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, notifications, task};
use tidings_wire::{Frame, encode_string, notification};

use super::{Exchange, Repetition, Reply, Stage};
use crate::call::drive::{AskedRound, DriveEvent};
use crate::call::routing::Routed;
use crate::client::session::Caller;
use crate::links::in_flight::TakenBack;
use crate::links::live_link::LiveLink;
use crate::servers::server::Server;

/// What the rounds of one request share.
pub(super) struct DrivenCall {
    drive: Drive,
    /// What the rounds before this one leave to it.
    pub(super) history: CallHistory,
    state: Option<Box<str>>,
    /// The answers of the round, as one raw object.
    responses: Option<Vec<u8>>,
    /// URLs that the client has visited, by the ids that we made for them: it is told when the server has taken note.
    visited: Vec<String>,
}

/// A request between two rounds.
pub(super) struct Driving {
    routed: Routed,
    live: LiveLink,
    /// Questions, and later words about them, that the client has not been sent yet.
    unsent: VecDeque<Bytes>,
    next: Next,
}

enum Next {
    Answers(AskedRound),
    /// The next round, not before this moment.
    Send(Instant),
    /// It was the last one.
    Answer(Box<ClientAnswer>),
}

impl DrivenCall {
    fn new(history: CallHistory) -> Box<Self> {
        let drive = Drive::new(DriveLimits::default(), history.last_moment);
        Box::new(Self { drive, history, state: None, responses: None, visited: Vec::new() })
    }

    /// What the next round carries.
    pub(super) fn changes(&self) -> RequestChanges<'_> {
        RequestChanges {
            state: self.state.as_deref().map_or(StateChange::Remove, StateChange::Set),
            responses: self.responses.as_deref(),
            ..RequestChanges::default()
        }
    }

    fn take(&mut self, responses: &[(Box<str>, Bytes)], state: Option<Box<str>>) {
        let entry = |(key, response): &(Box<str>, Bytes)| {
            format!("{}:{}", encode_string(key), String::from_utf8_lossy(response))
        };
        let entries: Vec<String> = responses.iter().map(entry).collect();
        self.responses = (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(",")).into_bytes());
        self.state = state;
    }
}

fn minted(shown: u64) -> String {
    format!("tidings-{shown}")
}

impl Exchange {
    /// What the server asks for with this answer, if its client can be asked only in the old way.
    pub(super) fn asked(&self, frame: &Frame) -> Option<InputRequired> {
        let Stage::Calling(calling) = &self.stage else { return None };
        let crosses = self.caller.era() == Era::Legacy && calling.live.hello.revision.era() == Era::Modern;
        if !crosses || !self.method.may_require_input() {
            return None;
        }
        question::input_required(frame)
    }

    /// Puts what the server asks to the client.
    pub(super) fn put_questions(&mut self, asked: InputRequired) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        // Taken out without an outcome, and without a moment at which a cancellation would not find it.
        let Some(TakenBack { waiter, moot, history }) = self.router.links.in_flight.take_back(calling.call) else {
            return Ok(Some(Reply::Cancelled));
        };
        (self.waiter, self.is_arriving) = (waiter, self.caller.names_its_calls());
        for (shown, ask) in &moot {
            self.router.links.withdraw_from_client(*shown, ask);
        }
        let Stage::Calling(calling) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        let driven = self.driven.get_or_insert_with(|| DrivenCall::new(history));
        driven.history.progress = history.progress;
        let unsent = completed(&mut driven.visited);
        let driving = Driving { routed: calling.routed, live: calling.live, unsent, next: Next::Send(Instant::now()) };
        self.stage = Stage::Driving(Box::new(driving));
        self.ask_session(asked)
    }

    /// Puts what the server asks in a task to the client.
    pub(super) fn drive_task(
        &mut self,
        routed: Routed,
        live: LiveLink,
        unsent: VecDeque<Bytes>,
        history: CallHistory,
        asked: InputRequired,
    ) -> Result<Option<Reply>, RequestRefusal> {
        self.driven.get_or_insert_with(|| DrivenCall::new(history));
        let next = Next::Send(Instant::now());
        self.stage = Stage::Driving(Box::new(Driving { routed, live, unsent, next }));
        self.ask_session(asked)
    }

    fn ask_session(&mut self, asked: InputRequired) -> Result<Option<Reply>, RequestRefusal> {
        let (Stage::Driving(driving), Some(driven), Caller::Legacy(session)) =
            (&mut self.stage, &mut self.driven, &self.caller)
        else {
            return Ok(None);
        };
        let server = &driving.routed.server;
        let alone = self.router.pool.is_passthrough(&session.principal, server);
        let named = (!alone).then_some(server.plan.name.as_str());
        let (revision, abilities) = (session.revision, session.abilities());
        let InputRequired { requests, state } = asked;
        let can = |request: &question::InputRequest| {
            abilities.allow(request.needs())?;
            // Whether its revision has words for it does not depend on the ids.
            question::from_input_request(&request.entry, 0, revision, named, "").map(drop)
        };
        let judged = requests.iter().map(|request| {
            let can = can(request).inspect_err(|unable| {
                if server.may_log(&self.router.runtime, request.method.len()) {
                    let (server, method, lacks) = (&server.plan.name, &request.method, unable.capability);
                    tracing::warn!(%server, %method, %revision, lacks, "question refused: its client can not be asked this");
                }
            });
            DriveRequest { key: request.key.clone(), method: request.method.clone(), can }
        });
        let mut mint = || self.router.links.in_flight.mint();
        let step = driven.drive.input_required(judged.collect(), state, &mut mint, Instant::now());
        let DriveStep::Ask(asked) = step else { return self.take_step(step) };
        let round = self.router.drives.open(session, asked.iter().map(|(shown, _)| *shown).collect());
        for (shown, index) in asked {
            let Some(request) = requests.get(index) else { continue };
            let id = minted(shown);
            // It was worded before; nothing but the ids differs.
            if let Ok(bytes) = question::from_input_request(&request.entry, shown, revision, named, &id) {
                driving.unsent.push_back(bytes);
            }
            if request.needs() == Needs::Url {
                driven.visited.push(id);
            }
        }
        // A client that knows the task is told which one asks.
        if let Some(known_as) = self.followed.as_ref().and_then(|followed| followed.known_as.as_deref()) {
            for message in &mut driving.unsent {
                *message = task::with_related(message, known_as);
            }
        }
        driving.next = Next::Answers(round);
        Ok(None)
    }

    fn take_step(&mut self, step: DriveStep) -> Result<Option<Reply>, RequestRefusal> {
        match (step, &mut self.stage, &mut self.driven) {
            (DriveStep::Retry { after, responses, state }, Stage::Driving(driving), Some(driven)) => {
                driven.take(&responses, state);
                driving.next = Next::Send(Instant::now() + after);
                Ok(None)
            }
            (DriveStep::End(fault), Stage::Driving(driving), _) => {
                if let Next::Answers(round) = &mut driving.next {
                    driving.unsent.extend(round.withdraw());
                }
                let server = Arc::clone(&driving.routed.server);
                let answer = self.undriven(&server, fault);
                if let Stage::Driving(driving) = &mut self.stage {
                    driving.next = Next::Answer(Box::new(answer));
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The end of a call that its server's questions do not let finish.
    fn undriven(&self, server: &Server, fault: DriveFault) -> ClientAnswer {
        let (_, most) = server.timeouts(&self.router.runtime.settings);
        let server = server.plan.name.clone();
        let refusal = match fault {
            DriveFault::Deadline => RequestRefusal::InputTooLate { server, seconds: most.as_secs() },
            DriveFault::TooManyRounds => RequestRefusal::NoEnd { server },
            DriveFault::TooManyQuestions => RequestRefusal::CanNotAsk {
                server,
                method: "questions".into(),
                reason: "they are too many at a time".into(),
            },
            DriveFault::Nothing => {
                RequestRefusal::CanNotAsk { server, method: "input".into(), reason: "it does not say which".into() }
            }
            DriveFault::Refused { method, reason } => {
                RequestRefusal::CanNotAsk { server, method: method.into(), reason }
            }
        };
        // The model sees the result of a tool, and can do without; an error of the protocol it may never see.
        if self.method == Method::ToolsCall && !matches!(refusal, RequestRefusal::InputTooLate { .. }) {
            return outcome::failed_tool(&self.id, &refusal.to_string(), self.caller.era());
        }
        self.refuse(&refusal)
    }

    /// Sends questions, takes answers, and sends the call again when all are there. May be dropped at any time.
    pub(super) async fn drive(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let (Stage::Driving(driving), Some(driven)) = (&mut self.stage, &mut self.driven) else { return Ok(None) };
        if let Some(message) = driving.unsent.pop_front() {
            return Ok(Some(Reply::Message(message)));
        }
        let until = driven.drive.until();
        match &mut driving.next {
            Next::Answer(answer) => Ok(Some(Reply::Answer((**answer).clone()))),
            Next::Answers(round) => {
                let event = tokio::select! {
                    biased;
                    // Nothing is said beside the stream of a call that is not sent: the bell can only mean the end.
                    () = self.waiter.rung() => return Ok(Some(Reply::Cancelled)),
                    event = round.next() => event,
                    () = self.router.runtime.coarse_timer.beat() => {
                        let late = Instant::now() >= until;
                        return if late { self.take_step(DriveStep::End(DriveFault::Deadline)) } else { Ok(None) };
                    }
                };
                let Some(DriveEvent { shown, answer }) = event else { return Ok(None) };
                let Some(method) = driven.drive.method(shown) else { return Ok(None) };
                let answer = match answer {
                    Some(frame) => question::answer_to_input(&frame, method),
                    None if method == question::ELICIT => InputAnswer::Cancelled,
                    None => InputAnswer::Fatal("can answer nothing any more".into()),
                };
                let step = driven.drive.answered(shown, answer);
                self.take_step(step)
            }
            Next::Send(at) => {
                let at = *at;
                tokio::select! {
                    biased;
                    () = self.waiter.rung() => return Ok(Some(Reply::Cancelled)),
                    () = tokio::time::sleep_until(at.into()) => {}
                }
                if Instant::now() >= until {
                    return self.take_step(DriveStep::End(DriveFault::Deadline));
                }
                self.send_round().await
            }
        }
    }

    /// Sends the next round, over the same link if that is still there.
    async fn send_round(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Driving(driving) = &self.stage else { return Ok(None) };
        let server = Arc::clone(&driving.routed.server);
        let live = match self.router.links.table.has(driving.live.key) {
            true => driving.live.clone(),
            false if !server.plan.isolation.is_shared() => {
                self.router.pool.link_for(&self.caller, &self.frame, &server).await?
            }
            false => self.router.pool.live_link(&server).await?,
        };
        let Stage::Driving(driving) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        if self.has_task() {
            let responses = self.driven.as_mut().and_then(|driven| driven.responses.take());
            self.update_task(driving.routed, live, responses);
            return Ok(None);
        }
        self.begin(driving.routed, live, Repetition::Possible)
    }

    /// The answer, after what the client is to be told before it.
    pub(super) fn last_words(&mut self, answer: ClientAnswer) -> Reply {
        let visited = self.driven.as_mut().map(|driven| std::mem::take(&mut driven.visited)).unwrap_or_default();
        // What failed did not take note of the visit.
        if visited.is_empty() || answer.error.is_some() {
            return Reply::Answer(answer);
        }
        let mut unsent = completed(&mut { visited });
        let first = unsent.pop_front();
        match (std::mem::replace(&mut self.stage, Stage::Over), first) {
            (Stage::Calling(calling), Some(first)) => {
                let next = Next::Answer(Box::new(answer));
                let driving = Driving { routed: calling.routed, live: calling.live, unsent, next };
                self.stage = Stage::Driving(Box::new(driving));
                Reply::Message(first)
            }
            _ => Reply::Answer(answer),
        }
    }
}

/// The server has taken note of these visits.
fn completed(visited: &mut Vec<String>) -> VecDeque<Bytes> {
    let word = |id: String| {
        let params = format!(r#"{{"elicitationId":{}}}"#, encode_string(&id));
        notification(notifications::ELICITATION_COMPLETE, Some(params.as_bytes()))
    };
    visited.drain(..).map(word).collect()
}
