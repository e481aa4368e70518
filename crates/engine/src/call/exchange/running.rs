//! A call that its server works on: what comes of it, in order, until the answer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tidings_hub::refresh::RefreshReason;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, ListKind, Method, ServerMessage, code};
use tidings_upstream::{CallEvent, LinkError};
use tidings_wire::{Frame, FrameKind, get};

use super::spans::note;
use super::{Exchange, Repetition, Reply, Stage, TakenByServer, Trouble};
use crate::call::relay::Relay;

/// How long a call that was rejected for its headers waits for a fresh list of its server's tools; then it is sent as
/// it is.
const RELIST: Duration = Duration::from_secs(10);

impl Exchange {
    /// Waits for the next event of the running call, and for what its server asks beside it.
    pub(super) async fn advance(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        match self.gathers_until() {
            None => self.follow_call().await,
            // Asked here too: a server that never stops talking must not put it off.
            Some(until) if until <= Instant::now() => self.park_call(),
            Some(until) => match tokio::time::timeout_at(until.into(), Box::pin(self.follow_call())).await {
                Ok(step) => step,
                Err(_) => self.park_call(),
            },
        }
    }

    /// Waits for the next event of the running call.
    async fn follow_call(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &mut self.stage else { return Ok(None) };
        // Asked before the select, because in these two stages nothing more comes on the stream of the call. Boxed, because they are
        // rare and thousands of calls may wait here.
        if let Repetition::UnderWay(listing) = calling.repetition {
            return Box::pin(self.repeat(listing)).await;
        }
        if calling.trouble.is_some() {
            return Box::pin(self.look_into_trouble()).await;
        }
        let Some(events) = &mut calling.events else { return Ok(self.send()) };
        if let Some(message) = calling.aside.pop_front() {
            return Ok(self.relay(&message).map(Reply::Message));
        }
        let deadline = calling.deadline;
        let event = tokio::select! {
            // What was said beside the stream came before the answer on it, so it has to be passed on first.
            biased;
            () = self.waiter.rung() => {
                calling.aside.extend(self.waiter.take_aside());
                // The bell rings for three reasons: a message beside the stream, a cancellation, a lost link. The table
                // tells which.
                let deadline = self.router.links.in_flight.lock().calls.get(calling.call).map(|call| call.deadline);
                let Some(deadline) = deadline else {
                    self.leave_ghost();
                    return Ok(Some(Reply::Cancelled));
                };
                // A call that waited for its client has its usual time again.
                calling.deadline = deadline;
                if self.router.links.table.has(calling.live.key) {
                    return Ok(None);
                }
                // The link was given up. What it brought before comes first, and its own word for its end.
                match events.next().now_or_never() {
                    Some(event) => event,
                    None => return self.failed(&LinkError::Stopped),
                }
            }
            event = events.next() => event,
            // A deadline that is met a quarter of a second late does no harm; a timer for every call would cost more
            // than the call.
            () = self.router.runtime.coarse_timer.beat() => {
                return if Instant::now() < deadline || self.has_more_time() { Ok(None) } else { self.timed_out() };
            }
        };
        if let Some(span) = &mut self.records.span {
            note(span, &event);
        }
        match event {
            CallEvent::Accepted => {
                calling.accepted = true;
                Ok(None)
            }
            CallEvent::Opened => Ok(Some(Reply::Opened)),
            // Only clients of that revision know how to come back.
            CallEvent::Interrupted(pause) if self.caller.revision().resumes_streams() => {
                Ok(Some(Reply::Interrupted(pause)))
            }
            // The link resumes the stream by itself; if it can not, `Failed` follows.
            CallEvent::Interrupted(_) | CallEvent::Broken => Ok(None),
            CallEvent::Message(message) => Ok(self.relay(&message).map(Reply::Message)),
            CallEvent::Redirect(instead) => self.redirect(&instead),
            CallEvent::LoginWanted(server) => Ok(self.wants_login(server)),
            CallEvent::Response(frame) => self.answered(&frame),
            // Its server has asked for it, so it has run: whatever the refusal means, the call is not sent again.
            CallEvent::Refused { answer: Some(answer), .. } if self.parking.is_some() => self.answered(&answer),
            CallEvent::Refused { answer: None, error } if self.parking.is_some() => self.failed(&error),
            CallEvent::Refused { answer, error } => {
                self.troubled(Trouble { error, answer, taken: TakenByServer::Refused })
            }
            CallEvent::Unsent(error) => self.troubled(Trouble { error, answer: None, taken: TakenByServer::Never }),
            CallEvent::Failed(error) => self.troubled(Trouble { error, answer: None, taken: TakenByServer::Perhaps }),
        }
    }

    fn relay(&mut self, message: &ServerMessage) -> Option<Bytes> {
        if self.keeps_question(message) {
            return None;
        }
        let Stage::Calling(calling) = &mut self.stage else { return None };
        let relay = Relay {
            router: &self.router,
            caller: &self.caller,
            server: &calling.routed.server,
            link: &calling.live.link,
            key: calling.live.key,
            call: calling.call,
            told: &calling.live.told,
        };
        // From here on the call may have had an effect, so it is never sent again.
        calling.begun = true;
        let out = relay.message(message);
        // Progress has moved the deadline in the hub's table; the copy here saves taking its lock at every beat.
        if let Some(call) = self.router.links.in_flight.lock().calls.get(calling.call) {
            calling.deadline = call.deadline;
        }
        out
    }

    /// Whether the table knows a later deadline than the copy here, because the server waits for the client.
    fn has_more_time(&mut self) -> bool {
        let Stage::Calling(calling) = &mut self.stage else { return false };
        if let Some(call) = self.router.links.in_flight.lock().calls.get(calling.call) {
            calling.deadline = call.deadline;
        }
        Instant::now() < calling.deadline
    }

    pub(super) fn answered(&mut self, frame: &Frame) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        calling.live.watch.answered();
        if let Some(asked) = self.asked(frame) {
            return self.put_questions(asked);
        }
        if let Some(step) = self.task_begun(frame) {
            return step;
        }
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        // What the server still wanted to know is moot.
        if let Some(parking) = &mut self.parking {
            parking.take_gathered();
            parking.is_answered = true;
        }
        let Some(ended) = self.router.links.in_flight.finish(calling.call) else { return Ok(Some(Reply::Cancelled)) };
        for (shown, ask) in &ended.moot {
            self.router.links.withdraw_from_client(*shown, ask);
        }
        // In the old era the code means whatever the server likes, and what has begun may have had its effect.
        let unread = calling.live.hello.revision.era() == Era::Modern && !calling.begun;
        if unread && calling.repetition == Repetition::Possible && self.wants_other_headers(frame) {
            // The first registration ended with `finish`; until it is sent again it must be possible to cancel it.
            self.waiter = self.waiter.renewed();
            self.arrive();
            if let Stage::Calling(calling) = &mut self.stage {
                // What was known of its headers is what the server refused.
                calling.routed.headers = None;
                calling.repetition = Repetition::UnderWay(
                    calling.routed.server.require_lists(&[ListKind::Tools], RefreshReason::Rejection),
                );
            }
            return Ok(None);
        }
        // Only these may have changed a list; reading a resource or a prompt does not.
        if matches!(self.method, Method::ToolsCall | Method::Other) {
            let server = &calling.routed.server;
            server.call_answered();
            // The replica that runs it knows of calls that came by way of it.
            if server.leads_past_owner(&calling.live.watch) {
                server.direct.call_answered();
            }
        }
        if self.method == Method::ResourcesRead {
            self.router.subscriptions.resource_read(
                &calling.routed.server,
                &calling.live,
                calling.routed.target.local.as_str(),
                frame,
            );
        }
        let answer = self.task_answer(frame).or_else(|| self.pass_over_error(frame));
        let answer = answer.unwrap_or_else(|| self.translate(frame));
        Ok(Some(self.last_words(answer)))
    }

    /// The server refused the request unread because of its headers: our view of its tools is old.
    fn wants_other_headers(&self, frame: &Frame) -> bool {
        self.method == Method::ToolsCall
            && frame.kind() == FrameKind::Error
            && frame
                .outcome()
                .and_then(|error| get(frame.bytes(), error, "code"))
                .is_some_and(|at| frame.raw(at) == code::HEADER_MISMATCH.to_string().as_bytes())
    }

    /// Waits for the server's tools to be listed again and sends the request once more. It was rejected before it ran.
    async fn repeat(&mut self, listing: u64) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        let server = &calling.routed.server;
        let listed = async {
            match server.is_elsewhere() {
                true => self.router.discovery.list_at_owner(server, ListKind::Tools).await,
                false => server.listed(listing).await,
            }
        };
        // Late or failed, it is sent again in any case: what is known by then may be enough.
        let _ = tokio::time::timeout(RELIST, listed).await;
        let Stage::Calling(calling) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        self.begin(calling.routed, calling.live, Repetition::Used)
    }
}
