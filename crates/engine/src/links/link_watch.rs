//! Drives [`tidings_hub::link_health`]: makes the checks, ends links, shows the state, keeps the time between attempts.
//!
//! Whoever owns a link watches over it: the task of its server over the one that all share, a task of its own over any other.
//! Calls only report what they met, and read the verdict; nothing here is on the path of a call that succeeds but one flag.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_hub::link_health::{
    FailureVerdict, LinkCommand, LinkEvent, LinkHealth, LinkState, ReconnectPace, RequestTrouble,
};
use tidings_proto::{Era, ListKind, Method, code};
use tidings_upstream::{LinkError, TransportSpec};
use tidings_wire::{Frame, FrameKind, get};
use tokio::sync::{Notify, watch};

use crate::gateway::Inner;
use crate::observe::status::ServerState;
use crate::plan::{ServerPlan, Source};
use crate::servers::server::{LiveLink, Server};

const SHOW_FAILING: LinkCommand = LinkCommand::Show(LinkState::Failing);
/// How long a check may take.
const CHECK: Duration = Duration::from_secs(5);

/// The health of one link and its successors.
pub(crate) struct LinkWatch {
    state: Mutex<State>,
    /// Whether anything was answered over the link since the machine last looked.
    exchanged: AtomicBool,
    /// Rings when there are commands, or another deadline.
    bell: Notify,
    verdict: watch::Sender<FailureVerdict>,
}

struct State {
    machine: LinkHealth,
    /// Not carried out yet. The machine gives one check and one end at a time, so that they are few.
    commands: VecDeque<LinkCommand>,
    /// Whether the verdict has yet to be given. A call that failed is answered by it, and whoever got that answer must not read
    /// that the server is ready: so a server is shown as failing first.
    withheld: bool,
    /// Whether that is being shown: it was taken out of the commands, and is done when the next one is asked for.
    showing: bool,
    /// What went wrong last, for whoever reads the state.
    error: Option<LinkError>,
}

impl LinkWatch {
    pub(crate) fn new(plan: &ServerPlan) -> Arc<Self> {
        let pace = match &plan.source {
            Source::Remote(spec) if matches!(spec.transport, TransportSpec::Http(_)) => ReconnectPace::REMOTE,
            Source::Remote(_) | Source::Local(_) | Source::Unready(_) => ReconnectPace::PROCESS,
        };
        let machine = LinkHealth::new(pace);
        let verdict = watch::Sender::new(machine.verdict());
        Arc::new(Self {
            state: Mutex::new(State {
                machine,
                commands: VecDeque::new(),
                withheld: false,
                showing: false,
                error: None,
            }),
            exchanged: AtomicBool::new(false),
            bell: Notify::new(),
            verdict,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was answered. The only word from calls that succeed, so it costs no lock.
    pub(crate) fn answered(&self) {
        if !self.exchanged.load(Ordering::Relaxed) {
            self.exchanged.store(true, Ordering::Relaxed);
        }
    }

    /// Tells the machine what happened.
    pub(crate) fn tell(&self, event: LinkEvent) {
        self.tell_and_see(event);
    }

    /// The same; says whether a link is being made, or will be very soon.
    fn tell_and_see(&self, event: LinkEvent) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        if self.exchanged.swap(false, Ordering::Relaxed) && event != LinkEvent::Connected {
            state.machine.on(LinkEvent::Exchanged, now);
        }
        let commands = state.machine.on(event, now);
        let connects = state.machine.is_worth_waiting(now);
        state.commands.extend(commands);
        self.give_verdict(&mut state);
        drop(state);
        self.bell.notify_one();
        connects
    }

    /// Gives the verdict, unless something has to be shown first.
    fn give_verdict(&self, state: &mut State) {
        state.withheld = state.showing || state.commands.contains(&SHOW_FAILING);
        if !state.withheld {
            self.verdict.send_replace(state.machine.verdict());
        }
    }

    /// Somebody needs the link and there is none: waits for the attempt that is under way, or begins one where that is not too
    /// soon after the last.
    pub(crate) async fn wanted(&self, within: Duration) {
        let mut news = self.verdict.subscribe();
        if !self.tell_and_see(LinkEvent::Wanted) {
            return;
        }
        let attempt = async {
            let mut begun = self.lock().machine.is_connecting();
            while news.changed().await.is_ok() {
                let connecting = self.lock().machine.is_connecting();
                if begun && !connecting {
                    return;
                }
                begun |= connecting;
            }
        };
        let _ = tokio::time::timeout(within, attempt).await;
    }

    /// A request or a stream on the link failed.
    pub(crate) fn troubled(&self, error: &LinkError) {
        let Some(trouble) = trouble_of(error) else { return };
        self.lock().error = Some(error.clone());
        self.tell(LinkEvent::Failed(trouble));
    }

    /// The server has listed. Tells whether it is ready by that.
    pub(crate) fn listed(&self) -> bool {
        self.lock().machine.listed()
    }

    /// What is to be done next. What was given before is done.
    fn next(&self) -> (Option<LinkCommand>, Option<Instant>) {
        let mut state = self.lock();
        state.showing = false;
        if state.withheld {
            self.give_verdict(&mut state);
        }
        let command = state.commands.pop_front();
        state.showing = command == Some(SHOW_FAILING);
        (command, state.machine.next_deadline())
    }

    /// Whether something that makes the server doubtful is being looked into.
    pub(crate) fn is_checking(&self) -> bool {
        *self.verdict.borrow() == FailureVerdict::Checking
    }

    /// The verdict, as soon as it is one and it is not one of those to be waited through, or when the time is over.
    pub(crate) async fn verdict(&self, within: Duration, is_final: impl Fn(&FailureVerdict) -> bool) -> FailureVerdict {
        let mut verdict = self.verdict.subscribe();
        let _ = tokio::time::timeout(within, verdict.wait_for(|verdict| is_final(verdict))).await;
        *verdict.borrow()
    }

    /// Carries out what the machine wants for as long as the link lives; gives the reason when it has to end.
    pub(crate) async fn watch_over(&self, gateway: &Arc<Inner>, server: &Arc<Server>, live: &LiveLink) -> LinkError {
        loop {
            match self.next() {
                (Some(LinkCommand::Check), _) => {
                    let outcome = check(gateway, live).await;
                    let event = match outcome {
                        Ok(()) => LinkEvent::CheckAnswered,
                        Err((error, trouble)) => {
                            tracing::debug!(server = %server.plan.name, %error, "a check failed");
                            self.lock().error = Some(error);
                            LinkEvent::CheckFailed(trouble)
                        }
                    };
                    self.tell(event);
                }
                (Some(LinkCommand::End(_)), _) => {
                    return self.lock().error.clone().unwrap_or(LinkError::Lost);
                }
                (Some(LinkCommand::Look), _) => server.unheard_lists(&ListKind::ALL),
                (Some(LinkCommand::ForgetEra), _) => server.forget_era(),
                (Some(LinkCommand::Show(state)), _) if server.is_shared(live.key) => self.show(gateway, server, state),
                (Some(LinkCommand::Show(_) | LinkCommand::Connect), _) => {}
                (None, deadline) => {
                    tokio::select! {
                        () = self.bell.notified() => {}
                        () = at(deadline) => self.tell(LinkEvent::Time),
                    }
                }
            }
        }
    }

    fn show(&self, gateway: &Inner, server: &Server, state: LinkState) {
        match state {
            LinkState::Failing => {
                let error = self.lock().error.as_ref().map(LinkError::to_string);
                tracing::warn!(server = %server.plan.name, error = error.as_deref(), "does not answer");
                gateway.set_state(server, ServerState::Failing, error);
            }
            LinkState::Ready => {
                tracing::info!(server = %server.plan.name, "answers again");
                gateway.set_state(server, ServerState::Ready, None);
            }
            LinkState::Connecting => gateway.set_state(server, ServerState::Connecting, None),
        }
    }

    /// Waits until the next attempt is due.
    pub(crate) async fn connect_due(&self, server: &Server) {
        loop {
            match self.next() {
                (Some(LinkCommand::Connect), _) => return,
                (Some(LinkCommand::ForgetEra), _) => server.forget_era(),
                (Some(_), _) => {}
                (None, deadline) => {
                    tokio::select! {
                        () = self.bell.notified() => {}
                        () = at(deadline) => self.tell(LinkEvent::Time),
                    }
                }
            }
        }
    }

    /// Shows what is to be shown; nothing else is to be done where there is no link.
    pub(crate) fn carry_out_what_is_shown(&self, gateway: &Inner, server: &Server) {
        let commands = self.take_commands();
        for command in commands {
            match command {
                LinkCommand::Show(state) => self.show(gateway, server, state),
                LinkCommand::ForgetEra => server.forget_era(),
                _ => {}
            }
        }
        let mut state = self.lock();
        state.showing = false;
        if state.withheld {
            self.give_verdict(&mut state);
        }
    }

    fn take_commands(&self) -> VecDeque<LinkCommand> {
        let mut state = self.lock();
        let commands = std::mem::take(&mut state.commands);
        state.showing = commands.contains(&SHOW_FAILING);
        commands
    }

    /// What was to be done for a link that is over. Whoever forgets it shows the state by itself, and then asks what is next.
    pub(crate) fn forget_commands(&self, server: &Server) {
        let commands = self.take_commands();
        if commands.contains(&LinkCommand::ForgetEra) {
            server.forget_era();
        }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// What a failure says about the link. None: it is about the request alone.
pub(crate) fn trouble_of(error: &LinkError) -> Option<RequestTrouble> {
    Some(match error.cause() {
        LinkError::Unreachable(_) => RequestTrouble::Unsent,
        LinkError::Broken(_) | LinkError::Lost | LinkError::Silent(_) => RequestTrouble::Broken,
        LinkError::Status { .. } | LinkError::Unauthorized(_) | LinkError::Protocol(_) => RequestTrouble::NoAnswer,
        LinkError::SessionRefused(_) => RequestTrouble::SessionRefused,
        LinkError::WrongEra(_) => RequestTrouble::WrongEra,
        _ => return None,
    })
}

/// Whether a failure says that nobody may be there, and not that somebody refuses.
pub(crate) fn is_unreachable(error: &LinkError) -> bool {
    matches!(trouble_of(error), Some(RequestTrouble::Unsent | RequestTrouble::Broken))
}

/// A request of our own that changes nothing: does the server still know us?
async fn check(gateway: &Inner, live: &LiveLink) -> Result<(), (LinkError, RequestTrouble)> {
    let era = live.hello.revision.era();
    let method = match era {
        Era::Legacy => Method::Ping,
        Era::Modern => Method::Discover,
    };
    let outgoing = gateway.own_request(&live.hello, method, json!({}));
    let late = || Err(LinkError::Silent(CHECK.as_secs()));
    let answer = tokio::time::timeout(CHECK, live.link.call(outgoing).answer()).await.unwrap_or_else(|_| late());
    match answer {
        Ok(frame) => judge(era, &frame).map_err(|trouble| {
            let said = String::from_utf8_lossy(&frame.bytes()[..frame.bytes().len().min(200)]).into_owned();
            match trouble {
                RequestTrouble::WrongEra => (LinkError::WrongEra(said), trouble),
                _ => (LinkError::Protocol(said), trouble),
            }
        }),
        Err(error) => {
            let trouble = trouble_of(&error).unwrap_or(RequestTrouble::NoAnswer);
            Err((error, trouble))
        }
    }
}

/// What the answer to a check says.
fn judge(era: Era, frame: &Frame) -> Result<(), RequestTrouble> {
    let outcome = frame.outcome().ok_or(RequestTrouble::NoAnswer)?;
    if frame.kind() == FrameKind::Response {
        let is_hello = era == Era::Legacy || get(frame.bytes(), outcome, "supportedVersions").is_some();
        return is_hello.then_some(()).ok_or(RequestTrouble::WrongEra);
    }
    let code = get(frame.bytes(), outcome, "code").and_then(|at| std::str::from_utf8(at.of(frame.bytes())).ok());
    match code.and_then(|code| code.parse().ok()) {
        // Every server must answer a ping; one that does not know it is there all the same.
        Some(code::METHOD_NOT_FOUND) if era == Era::Legacy => Ok(()),
        // Nothing was wrong with the question in the era that it was asked in.
        Some(code::METHOD_NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS) => Err(RequestTrouble::WrongEra),
        Some(code) if code::is_modern(code) => Err(RequestTrouble::WrongEra),
        _ => Err(RequestTrouble::NoAnswer),
    }
}
