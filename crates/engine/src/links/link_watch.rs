//! The health of a link: [`tidings_hub::link_health`] behind one lock. `lifecycle/link_care.rs` carries out what it wants.
//!
//! Calls only report what they met, and read the verdict; nothing here is on the path of a call that succeeds but one flag.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tidings_hub::link_health::{
    FailureVerdict, LinkCommand, LinkEvent, LinkHealth, LinkState, ReconnectPace, RequestTrouble,
};
use tidings_sync::Lock;
use tidings_upstream::{LinkError, TransportSpec};
use tokio::sync::{Notify, watch};

use crate::plan::{ServerPlan, Source};

const SHOW_FAILING: LinkCommand = LinkCommand::Show(LinkState::Failing);

/// The health of one link and its successors.
pub(crate) struct LinkWatch {
    state: Lock<LinkWatchState>,
    /// Whether anything was answered over the link since the machine last looked.
    exchanged: AtomicBool,
    /// Rings when there are commands, or another deadline.
    bell: Notify,
    verdict: watch::Sender<FailureVerdict>,
}

struct LinkWatchState {
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
            Source::Remote(spec) if matches!(spec.transport, TransportSpec::Http(_) | TransportSpec::Sse(_)) => {
                ReconnectPace::REMOTE
            }
            Source::Remote(_) | Source::Local(_) | Source::Unready(_) => ReconnectPace::PROCESS,
        };
        let machine = LinkHealth::new(pace);
        let verdict = watch::Sender::new(machine.verdict());
        Arc::new(Self {
            state: Lock::new(LinkWatchState {
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

    fn lock(&self) -> MutexGuard<'_, LinkWatchState> {
        self.state.lock()
    }

    /// A call was answered. The only word from calls that succeed, so it costs no lock.
    pub(crate) fn answered(&self) {
        // Read before it is written: nearly always set already, and a write would pull the cache line from other cores.
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
        // What was answered over the link before says nothing about this one.
        if self.exchanged.swap(false, Ordering::Relaxed) && event != LinkEvent::Connected {
            state.machine.on(LinkEvent::Exchanged, now);
        }
        let commands = state.machine.on(event, now);
        let connects = state.machine.is_worth_waiting(now);
        state.commands.extend(commands);
        self.give_verdict(&mut state);
        // Before the bell: whoever it wakes takes the same lock.
        drop(state);
        self.bell.notify_one();
        connects
    }

    /// Gives the verdict, unless something has to be shown first.
    fn give_verdict(&self, state: &mut LinkWatchState) {
        state.withheld = state.showing || state.commands.contains(&SHOW_FAILING);
        if !state.withheld {
            self.verdict.send_replace(state.machine.verdict());
        }
    }

    /// Somebody needs the link and there is none: waits for the attempt that is under way, or begins one where that is not too
    /// soon after the last.
    pub(crate) async fn wanted(&self, within: Duration) {
        // Subscribed before the machine is told, so that an attempt which ends at once is not missed.
        let mut news = self.verdict.subscribe();
        if !self.tell_and_see(LinkEvent::Wanted) {
            return;
        }
        let attempt = async {
            // Not begun where a short pause is left: then the beginning of the attempt is waited through, too.
            let mut begun = self.lock().machine.is_connecting();
            while news.changed().await.is_ok() {
                let connecting = self.lock().machine.is_connecting();
                // The attempt is over, well or not; the caller looks for itself.
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
        // Before the machine hears of it: whoever is shown the failure reads its reason.
        self.lock().error = Some(error.clone());
        self.tell(LinkEvent::Failed(trouble));
    }

    /// The server has listed. Tells whether it is ready by that.
    pub(crate) fn listed(&self) -> bool {
        self.lock().machine.listed()
    }

    /// Whether something that makes the server doubtful is being looked into.
    pub(crate) fn is_checking(&self) -> bool {
        *self.verdict.borrow() == FailureVerdict::Checking
    }

    /// The verdict, as soon as it is one and it is not one of those to be waited through, or when the time is over.
    pub(crate) async fn verdict(&self, within: Duration, is_final: impl Fn(&FailureVerdict) -> bool) -> FailureVerdict {
        let mut verdict = self.verdict.subscribe();
        // After the time is over, the verdict as it is then is what there is to go by.
        let _ = tokio::time::timeout(within, verdict.wait_for(|verdict| is_final(verdict))).await;
        *verdict.borrow()
    }

    /// What is to be done next, and when the machine wants to be asked again. What was given before is done.
    pub(crate) fn next(&self) -> (Option<LinkCommand>, Option<Instant>) {
        let mut state = self.lock();
        self.is_done(&mut state);
        let command = state.commands.pop_front();
        state.showing = command == Some(SHOW_FAILING);
        (command, state.machine.next_deadline())
    }

    /// Everything that was to be done. Whoever takes it says when it is.
    pub(crate) fn take_commands(&self) -> VecDeque<LinkCommand> {
        let mut state = self.lock();
        let commands = std::mem::take(&mut state.commands);
        state.showing = commands.contains(&SHOW_FAILING);
        commands
    }

    /// What was taken is done.
    pub(crate) fn done(&self) {
        self.is_done(&mut self.lock());
    }

    fn is_done(&self, state: &mut LinkWatchState) {
        state.showing = false;
        if state.withheld {
            self.give_verdict(state);
        }
    }

    /// Waits until there is something to do, or the machine's time has come.
    pub(crate) async fn something_to_do(&self, deadline: Option<Instant>) {
        tokio::select! {
            () = self.bell.notified() => {}
            () = at(deadline) => self.tell(LinkEvent::Time),
        }
    }

    /// What went wrong last.
    pub(crate) fn last_error(&self) -> Option<LinkError> {
        self.lock().error.clone()
    }

    /// A check of ours failed.
    pub(crate) fn check_failed(&self, error: LinkError, trouble: RequestTrouble) {
        self.lock().error = Some(error);
        self.tell(LinkEvent::CheckFailed(trouble));
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
        // Something answered, so the connection works; whether the server behind it does is for the check to find out.
        LinkError::Status { .. }
        | LinkError::Unauthorized(_)
        | LinkError::LoginUnavailable(_)
        | LinkError::Protocol(_) => RequestTrouble::NoAnswer,
        // Definite as well: nothing is let in over this link any more.
        LinkError::SessionRefused(_) | LinkError::NeedsLogin(_) => RequestTrouble::SessionRefused,
        LinkError::WrongEra(_) => RequestTrouble::WrongEra,
        _ => return None,
    })
}

/// Whether a failure says that nobody may be there, and not that somebody refuses.
pub(crate) fn is_unreachable(error: &LinkError) -> bool {
    matches!(trouble_of(error), Some(RequestTrouble::Unsent | RequestTrouble::Broken))
}
