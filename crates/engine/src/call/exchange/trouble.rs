//! A call that failed while its link may be at fault: it is answered when that is known, and sent again only if the server
//! provably did not take it.
//!
//! - Refused, and a check of ours was refused too: the session or the era was refused, not the call. It was not run, and goes over
//!   the next link.
//! - Refused, and the server answers our check: what it said is the answer.
//! - Not sent at all, because the link was over already: it goes over the next link.
//! - Not sent at all, because nobody was reached, and the server answers our check: it is sent once more.
//! - Not taken by the server over a link past the replica that runs it: it goes by way of that replica, at once.
//! - Anything else may have been run: the caller is told why it failed.

use std::sync::Arc;
use std::time::Duration;

use tidings_hub::link_health::{EndReason, FailureVerdict};
use tidings_proto::refusal::RequestRefusal;
use tidings_upstream::LinkError;

use super::{Exchange, Repetition, Reply, Stage, TakenByServer, Trouble};
use crate::links::in_flight::TakenBack;
use crate::links::link_table::LinkTable;
use crate::links::live_link::LiveLink;
use crate::servers::server::Server;

/// How long a failed call waits to know whether its server failed. It is answered then in any case.
const VERDICT: Duration = Duration::from_secs(2);
/// How long a call that was not run waits for the next link.
const NEXT_LINK: Duration = Duration::from_secs(5);

impl Exchange {
    /// The call failed. What that means may have to be found out first.
    pub(super) fn troubled(&mut self, trouble: Trouble) -> Result<Option<Reply>, RequestRefusal> {
        if self.goes_by_owner(&trouble) {
            return Ok(self.take_back(&trouble.error));
        }
        let Stage::Calling(calling) = &mut self.stage else { return Ok(None) };
        // The link that all share may be looked at because of another failure: what it shows is about this one too.
        let is_checked = || calling.live.watch.is_checking() || calling.routed.server.health().is_checking();
        // What has begun may have had an effect, so its failure is told at once.
        if trouble.taken == TakenByServer::Perhaps && (calling.begun || !is_checked()) {
            return self.failed(&trouble.error);
        }
        calling.trouble = Some(Box::new(trouble));
        Ok(None)
    }

    /// Whether a call that its server did not take is to be passed to the replica that runs the server: that one may reach it, and may be let
    /// in, where this one is not. Then no other call tries it here before somebody has looked.
    fn goes_by_owner(&self, trouble: &Trouble) -> bool {
        let Stage::Calling(calling) = &self.stage else { return false };
        let is_not_taken = trouble.taken == TakenByServer::Never
            || trouble.error.needs_login()
            || matches!(trouble.error.cause(), LinkError::Unreachable(_) | LinkError::Unauthorized(401));
        let may_repeat = !calling.begun && calling.repetition == Repetition::Possible;
        let server = &calling.routed.server;
        if !(is_not_taken && may_repeat && server.leads_past_owner(&calling.live.watch)) {
            return false;
        }
        // Another call may have given it up first.
        server.direct.give_up(calling.live.key);
        true
    }

    /// Waits for the verdict. It can be cancelled meanwhile like any call.
    pub(super) async fn look_into_trouble(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &mut self.stage else { return Ok(None) };
        let Some(trouble) = &calling.trouble else { return Ok(None) };
        let taken = trouble.taken;
        let verdict = tokio::select! {
            biased;
            () = self.waiter.rung() => {
                calling.aside.extend(self.waiter.take_aside());
                let gone = self.router.links.in_flight.lock().calls.get(calling.call).is_none();
                return Ok(gone.then_some(Reply::Cancelled));
            }
            verdict = verdict_of(&self.router.links.table, &calling.routed.server, &calling.live, taken) => verdict,
        };
        let Some(trouble) = calling.trouble.take() else { return Ok(None) };
        let replaced = !self.router.links.table.has(calling.live.key);
        let refused = taken == TakenByServer::Refused;
        let not_run = match verdict {
            _ if taken == TakenByServer::Never => true,
            FailureVerdict::Over(Some(EndReason::Refused)) => refused,
            // The link was replaced while this call waited: a refusal on it was about its session or era, not about the call.
            _ if replaced => refused,
            // Nothing of it was sent, and the server answers now: sending it is the first time.
            FailureVerdict::Trusted => matches!(trouble.error, LinkError::Unreachable(_)),
            _ => false,
        };
        match (not_run && calling.repetition == Repetition::Possible, trouble.answer) {
            (true, _) => Ok(self.take_back(&trouble.error)),
            // The link is good, so what the server said was about this call.
            (false, Some(answer)) => self.answered(&answer),
            (false, None) => self.failed(&trouble.error),
        }
    }

    /// The request is to be sent again. Until then it can be cancelled like one that has just arrived.
    fn take_back(&mut self, error: &LinkError) -> Option<Reply> {
        let Stage::Calling(calling) = &mut self.stage else { return None };
        let Some(TakenBack { waiter, moot, .. }) = self.router.links.in_flight.take_back(calling.call) else {
            return Some(Reply::Cancelled);
        };
        (self.waiter, self.is_arriving) = (waiter, self.caller.names_its_calls());
        for (shown, ask) in &moot {
            self.router.links.withdraw_from_client(*shown, ask);
        }
        let server = &calling.routed.server.plan.name;
        tracing::info!(%server, method = self.method.as_str(), %error, "was not run; is sent again");
        if let Stage::Calling(calling) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.stage = Stage::Again(Box::new(calling.routed));
        }
        None
    }

    /// Sends the request again, over the link that there is then. May be called away, and comes back.
    pub(super) async fn send_again(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Again(routed) = &self.stage else { return Ok(None) };
        let server = Arc::clone(&routed.server);
        // A link of its own is made when it is claimed, so there is nothing to wait for.
        if server.plan.isolation.is_shared() {
            let there = |verdict: &FailureVerdict| *verdict == FailureVerdict::Trusted;
            tokio::select! {
                biased;
                () = self.waiter.rung() => return Ok(Some(Reply::Cancelled)),
                _ = server.health().verdict(NEXT_LINK, there) => {}
                // There will be no next link, and whoever looks for one is told why.
                () = server.presence.gone.cancelled() => {}
            }
        }
        let live = self.link_to(&server).await?;
        let Stage::Again(routed) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        // Once only: a call that is refused a second time gets the refusal as its answer (invariant 12).
        self.begin(*routed, live, Repetition::Used)
    }
}

/// What is known of the link of a call that failed, as soon as that is enough to tell what becomes of the call.
async fn verdict_of(table: &LinkTable, server: &Server, live: &LiveLink, taken: TakenByServer) -> FailureVerdict {
    let key = live.key;
    if taken == TakenByServer::Never {
        // The link is over, and only whoever looks after the server has yet to notice. Until then the same link would be found.
        let given_up = async {
            table.gone(key).await;
            if server.is_shared(key) {
                server.health().verdict(VERDICT, |verdict| *verdict != FailureVerdict::Trusted).await;
            }
        };
        let _ = tokio::time::timeout(VERDICT, given_up).await;
        return FailureVerdict::Over(None);
    }
    let is_final = |verdict: &FailureVerdict| match verdict {
        FailureVerdict::Checking => false,
        // The next check may be refused for good: then the call was not run.
        FailureVerdict::Doubted => taken != TakenByServer::Refused,
        FailureVerdict::Trusted | FailureVerdict::Over(_) => true,
    };
    let verdict = live.watch.verdict(VERDICT, is_final).await;
    // Users are shown the state of the link that all share: it has to be known before this failure is told.
    if verdict != FailureVerdict::Trusted && !server.is_shared(key) {
        server.health().verdict(VERDICT, |verdict| *verdict != FailureVerdict::Checking).await;
    }
    verdict
}
