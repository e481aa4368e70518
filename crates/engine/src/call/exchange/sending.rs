//! A request on its way to its server: it gets an id that is ours, and is sent in the server's terms.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tidings_hub::calls::{BeginError, NewCall};
use tidings_proto::headers::ParamHeader;
use tidings_proto::outbound::{self, RequestChanges, RequestDestination, RequestingClient, StateChange};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, TaskMethod, meta};
use tidings_upstream::OutgoingRequest;

use super::skills::PART;
use super::tasks::TaskPart;
use super::{Calling, Exchange, Repetition, Reply, Stage, followed_task};
use crate::call::routing::{Routed, headers_of};
use crate::call::skills::SkillsPage;
use crate::client::session::Caller;
use crate::fleet;
use crate::links::live_link::LiveLink;
use crate::plan::CallChannel;

impl Exchange {
    pub(super) fn no_completions(&self) -> ClientAnswer {
        let marker = if self.caller.era() == Era::Modern { r#""resultType":"complete","# } else { "" };
        let result = format!(r#"{{{marker}"completion":{{"values":[],"total":0,"hasMore":false}}}}"#);
        ClientAnswer::result(&self.id, result.as_bytes())
    }

    /// Gives the call its id. From now on it is in flight.
    pub(super) fn admit(
        &self,
        routed: Routed,
        live: LiveLink,
        repetition: Repetition,
    ) -> Result<Calling, RequestRefusal> {
        // Before the call is registered: a state that can not be opened must leave nothing to take back.
        let state = self.open_state(&routed, &live)?;
        let task = self.task_part(&routed, &live);
        let (mut timeout, max_timeout) = routed.server.timeouts(&self.router.runtime.settings);
        // The outcome of a task is waited for in silence.
        if task == TaskPart::Outcome || self.method == Method::Task(TaskMethod::Result) {
            timeout = max_timeout;
        }
        if self.is_part_of_skills(&routed.server) {
            timeout = timeout.min(PART);
        }
        let new = NewCall {
            client: self.caller.key(),
            id: self.caller.names_its_calls().then(|| self.id.clone()),
            principal: Arc::clone(&self.caller.principal().name),
            link: live.key,
            heard_beside: routed.server.call_channel(&live) != CallChannel::OwnStream,
            token: meta::progress_token(&self.frame),
            timeout,
            max_timeout,
            after: (self.driven.as_ref().map(|driven| driven.history))
                .or_else(|| self.followed.as_ref().and_then(|followed| followed.history)),
        };
        // Registered before the bytes are written, so that no answer can come for an unknown id.
        let begun = self.router.links.in_flight.begin(new, &self.waiter, self.is_arriving, Instant::now());
        let (call, deadline) = begun.map_err(|error| match error {
            BeginError::DuplicateId => RequestRefusal::InvalidRequest(error.to_string()),
            BeginError::TooMany { limit } => RequestRefusal::TooMany { limit },
        })?;
        Ok(Calling {
            routed,
            live,
            call,
            state,
            aside: VecDeque::new(),
            deadline,
            silent_for: timeout,
            events: None,
            repetition,
            begun: false,
            accepted: false,
            task,
            trouble: None,
        })
    }

    /// Sends the request of a call that has its id, unless it was cancelled before.
    pub(super) fn send(&mut self) -> Option<Reply> {
        let trace = self.trace_request();
        let Stage::Calling(calling) = &self.stage else { return None };
        let Calling { routed, live, call, state, task, .. } = &**calling;
        let revision = live.hello.revision;
        let (info, level, capabilities) = match &self.caller {
            Caller::Legacy(session) => {
                // Only a modern server is told them here; a legacy one knows them from the handshake.
                let told = revision.era() == Era::Modern && self.method.may_require_input();
                let capabilities = if told { session.modern_capabilities() } else { &b"{}"[..] };
                (session.client.info.as_deref(), session.level(), capabilities)
            }
            Caller::Modern(caller) => {
                // A modern request names its level itself; a legacy server has one level per link, which has to be
                // asked for.
                if let (Some(level), Era::Legacy) = (caller.log_level, revision.era()) {
                    self.router.links.want_level(live, level);
                }
                (None, None, &b"{}"[..])
            }
        };
        let knows_tasks = matches!(task, TaskPart::Followed | TaskPart::Crossed(_)) && revision.era() == Era::Modern;
        let with_tasks = knows_tasks.then(|| followed_task::with_tasks(capabilities));
        let capabilities = with_tasks.as_deref().unwrap_or(capabilities);
        let alone = self.router.pool.is_alone(self.caller.principal(), &routed.server);
        let requester = RequestingClient { era: self.caller.era(), info, capabilities, log_level: level, alone };
        let destination = RequestDestination { revision, id: call.0 };
        let state = match state {
            None => StateChange::Keep,
            Some(None) => StateChange::Remove,
            Some(Some(own)) => StateChange::Set(own),
        };
        let changes = match &self.driven {
            Some(driven) => driven.changes(),
            None => RequestChanges { state, ..RequestChanges::default() },
        };
        let page = self.page_of_skills();
        let cursor = page.as_ref().map_or(StateChange::Keep, SkillsPage::change);
        let changes = RequestChanges {
            task: task.change(self.method, revision.era()),
            cursor,
            trace: trace.as_deref(),
            ..changes
        };
        let outcome = self.followed.as_ref().and_then(|followed| followed.outcome.as_ref());
        let (frame, method) = match outcome {
            Some(frame) => (frame, Method::Task(TaskMethod::Result)),
            None => (&self.frame, self.method),
        };
        let target = Some(&routed.target);
        let bytes = outbound::translate(frame, method, target, &requester, destination, changes);
        let outgoing = OutgoingRequest {
            id: call.0,
            method,
            bytes,
            name: method.name_param().map(|_| routed.target.local.clone()),
            params: self.mirrored(routed, revision.era()),
            trace,
        };
        let vouch = || {
            let principal = self.caller.principal();
            fleet::vouch(&principal.name, principal.scope.facts())
        };
        // Under the waiter's lock: a cancellation comes either before this, and nothing is sent, or after it, and finds
        // a call to cancel (edges G13).
        let Some(events) = self.waiter.send(|| live.link.call_for(outgoing, &vouch)) else {
            self.router.links.in_flight.finish(*call);
            return Some(Reply::Cancelled);
        };
        if let Stage::Calling(calling) = &mut self.stage {
            calling.events = Some(events);
        }
        None
    }

    /// Tool parameters that a modern server wants in headers.
    fn mirrored(&self, routed: &Routed, era: Era) -> Vec<(String, String)> {
        if self.method != Method::ToolsCall || era == Era::Legacy {
            return Vec::new();
        }
        let Some(arguments) = self.frame.param(&["arguments"]) else { return Vec::new() };
        let mirrored = |headers: &[ParamHeader]| {
            let values = headers.iter();
            values
                .filter_map(|header| Some((header.name.clone(), header.value(self.frame.bytes(), arguments)?)))
                .collect()
        };
        match &routed.headers {
            Some(known) => mirrored(known),
            None => {
                let catalogue = self.router.catalogue.current();
                let headers = headers_of(&catalogue.snapshot, routed.server.id, &routed.target.local);
                headers.map(mirrored).unwrap_or_default()
            }
        }
    }
}
