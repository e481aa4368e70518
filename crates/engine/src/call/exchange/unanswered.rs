//! How a call ends that gets no answer: its server is late or lost, or its client is gone.

use tidings_proto::refusal::RequestRefusal;
use tidings_upstream::LinkError;

use super::{Calling, Exchange, Reply, Stage};
use crate::observe::audit::CallOutcome;
use crate::plan::CallChannel;

impl Exchange {
    /// A call that was not awaited long enough, whatever its server does later.
    pub(super) fn timed_out(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        // Somebody else took the call out first: its outcome is not ours to decide.
        let Some(ended) = self.router.links.in_flight.give_up(calling.call) else { return Ok(Some(Reply::Cancelled)) };
        self.router.links.abandon(calling.call.0, &ended, Some("timed out"));
        let server = calling.routed.server.plan.name.clone();
        let seconds = calling.silent_for.as_secs();
        if let Some(span) = &mut self.records.span {
            span.timed_out();
        }
        self.leave_ghost();
        Err(RequestRefusal::TimedOut { server, seconds })
    }

    /// The call was given up, and its server may still work on it: its stream is not the client's any more.
    pub(super) fn leave_ghost(&mut self) {
        if let Stage::Calling(calling) = std::mem::replace(&mut self.stage, Stage::Over) {
            let Calling { routed, live, call, events, accepted, .. } = *calling;
            let channel = routed.server.call_channel(&live);
            // Reading on before the server has taken the request could send it after all.
            if let Some(events) = events.filter(|_| accepted || channel == CallChannel::SharedPipe) {
                self.router.follow_ghost(&routed.server, &live, call, events);
            }
        }
    }

    pub(super) fn failed(&mut self, error: &LinkError) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        // Taken out by somebody else: it was cancelled, and the failure is only the echo.
        let ended = match calling.routed.server.call_channel(&calling.live) {
            // The call has lost its stream, and its server may go on and speak on the other one.
            CallChannel::OwnStreamAndPush if is_loss(error) => self.router.links.in_flight.give_up(calling.call),
            _ => self.router.links.in_flight.finish(calling.call),
        };
        let Some(ended) = ended else { return Ok(Some(Reply::Cancelled)) };
        // Questions that the server asked for this call are moot: the client must not go on showing a form.
        for (shown, ask) in &ended.moot {
            self.router.links.withdraw_from_client(*shown, ask);
        }
        let server = &calling.routed.server;
        let reason = match server.presence.removal().filter(|_| *error == LinkError::Stopped) {
            Some(removal) => format!("{} during the call; whether it took effect is not known", removal.as_str()),
            None => error.for_clients(),
        };
        let server = server.plan.name.clone();
        Err(match error.cause() {
            LinkError::NeedsLogin(_) | LinkError::NeedsMore(_) => RequestRefusal::NeedsLogin { server, reason },
            _ => RequestRefusal::ServerDown { server, reason },
        })
    }
}

/// Whether a server may have got a request, and may work on it, though there will be no answer.
fn is_loss(error: &LinkError) -> bool {
    matches!(error.cause(), LinkError::Lost | LinkError::Unreachable(_) | LinkError::Protocol(_))
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // The id is free for another request again, also when this one never got as far as a call.
        if self.is_arriving {
            self.router.links.in_flight.arrived(self.caller.key(), &self.id, &self.waiter);
        }
        self.refuse_gathered();
        if let Stage::Calling(calling) = &self.stage {
            if let Some(ended) = self.router.links.in_flight.give_up(calling.call) {
                self.router.links.abandon(calling.call.0, &ended, Some("the client is gone"));
            }
            self.leave_ghost();
        }
        self.end_span(CallOutcome::Abandoned, None);
        self.end_trace(CallOutcome::Abandoned);
        if let (Some(quota), Some(book)) = (self.allowance.counts_as, self.caller.principal().book()) {
            book.leave(quota);
        }
    }
}
