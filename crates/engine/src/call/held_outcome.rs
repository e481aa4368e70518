//! A server of 2025-11-25 asks in a task whose client knows the extension: such a server asks only whoever waits for the outcome, and
//! such a client waits for nothing. So the gateway waits, and the questions stand inside the task until the client answers them.
//!
//! The rules are the hub's ([`tidings_hub::task_questions`]). The request for the outcome is held from the moment at which the server
//! says that it wants to know something, until it is answered, the link is lost, or the client has not been there for `input_wait`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::parks::AskedInput;
use tidings_hub::task_questions::{TaskReply, TooManyDesks};
use tidings_hub::tasks::TaskKey;
use tidings_proto::question::{self, Needs};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{MessageSubject, ServerMessage, TaskMethod};
use tidings_upstream::CallEvent;
use tidings_wire::{Frame, RawId};

use crate::call::tasks::TaskRoom;
use crate::call::{QUESTIONS_GATHERED, RequestRouter};
use crate::client::principal::Principal;
use crate::links::in_flight::Waiter;
use crate::links::live_link::LiveLink;
use crate::servers::server::Server;

/// Whoever holds the request for the outcome of one task open.
struct OutcomeHolder {
    router: Arc<RequestRouter>,
    server: Arc<Server>,
    live: LiveLink,
    key: TaskKey,
    waiter: Arc<Waiter>,
    /// Whether the server speaks for itself to the client.
    alone: bool,
}

impl TaskRoom {
    /// Waits until a task has questions, and a moment longer; or until nobody waits for its outcome.
    pub(crate) async fn asked(&self, key: &TaskKey) {
        loop {
            // Made before the look: a question that comes in between is not missed.
            let changed = self.changed.notified();
            {
                let state = self.lock();
                if state.questions.last_seen(key).is_none() {
                    return;
                }
                if state.questions.is_asking(key) {
                    break;
                }
            }
            changed.await;
        }
        tokio::time::sleep(QUESTIONS_GATHERED).await;
    }

    /// Waits until nobody waits for the outcome of a task any more.
    pub(crate) async fn settled(&self, key: &TaskKey) {
        loop {
            let changed = self.changed.notified();
            if self.lock().questions.last_seen(key).is_none() {
                return;
            }
            changed.await;
        }
    }
}

impl RequestRouter {
    /// Waits for the outcome of a task in the place of its client, unless that is done already.
    pub(crate) fn hold_outcome(
        self: &Arc<Self>,
        server: &Arc<Server>,
        live: &LiveLink,
        key: &TaskKey,
        principal: &Principal,
        declared: Bytes,
    ) -> Result<(), RequestRefusal> {
        let waiter = Waiter::of(principal, declared);
        let alone = self.pool.is_passthrough(principal, server);
        {
            let mut state = self.tasks.lock();
            // It came while the server's older word was on its way.
            if state.table.kept(key, Instant::now()).is_some() {
                return Ok(());
            }
            match state.questions.open(key, &principal.name, Instant::now()) {
                Ok(true) => state.hold(key, &waiter),
                Ok(false) => return Ok(()),
                Err(TooManyDesks { limit }) => return Err(RequestRefusal::TooMany { limit }),
            }
        }
        let (router, server, live) = (Arc::clone(self), Arc::clone(server), live.clone());
        let holder = OutcomeHolder { router, server, live, key: key.clone(), waiter, alone };
        self.runtime.spawn(holder.run());
        Ok(())
    }

    /// Tells servers what became of their questions.
    pub(crate) fn reply_to_tasks(&self, replies: Vec<TaskReply>) {
        for TaskReply { link, id, method, answer } in replies {
            // A link that is gone has nobody who waits for it.
            let Some(link) = self.links.table.get(link) else { continue };
            link.send(match answer {
                Some(answer) => question::answer_to_server(&id, &answer, &method),
                None => question::refusal(&id, &method, None),
            });
        }
    }
}

impl OutcomeHolder {
    async fn run(self) {
        let outgoing = self.router.own_task_request(&self.live, TaskMethod::Result, &self.key.id);
        let id = outgoing.id;
        let mut events = self.live.link.call(outgoing);
        let (_, longest) = self.server.timeouts(&self.router.runtime.settings);
        let last = Instant::now() + longest;
        let outcome = loop {
            tokio::select! {
                biased;
                () = self.router.runtime.stop.cancelled() => break None,
                () = self.waiter.rung() => {
                    for message in self.waiter.take_aside() {
                        self.heard(&message);
                    }
                }
                event = events.next() => match event {
                    CallEvent::Message(message) => self.heard(&message),
                    CallEvent::Response(frame) => break Some(frame),
                    CallEvent::Refused { .. } | CallEvent::Unsent(_) | CallEvent::Failed(_) => break None,
                    _ => {}
                },
                () = self.router.runtime.coarse_timer.beat() => {
                    if Instant::now() >= last || self.is_alone() {
                        self.live.link.cancel(id, Some("nobody waits for the outcome"));
                        break None;
                    }
                }
            }
        };
        if let Some(frame) = outcome {
            // Before the desk is closed. Where there is no room the server is asked for it again.
            let kept = Bytes::copy_from_slice(frame.bytes());
            self.router.tasks.lock().table.keep(&self.key, kept, Instant::now());
        }
    }

    /// Whether the client has not been there for as long as one may take to answer.
    fn is_alone(&self) -> bool {
        let patience = self.router.runtime.settings.parks.ttl;
        let seen = self.router.tasks.lock().questions.last_seen(&self.key);
        seen.is_none_or(|seen| Instant::now() >= seen + patience)
    }

    fn heard(&self, message: &ServerMessage) {
        match message.subject() {
            MessageSubject::Question => self.asked(message),
            MessageSubject::Cancelled => _ = self.router.withdraw_from_task(self.live.key, message),
            // How far the task is its client asks itself.
            _ => {}
        }
    }

    fn asked(&self, message: &ServerMessage) {
        let Some(id) = message.id() else { return };
        if let Err(unable) = self.waiter.abilities().allow(Needs::of_frame(message)) {
            if self.server.may_log(&self.router.runtime, message.method().len()) {
                let (server, method, lacks) = (&self.server.plan.name, message.method(), unable.capability);
                tracing::warn!(%server, %method, lacks, "question refused: its client can not be asked this");
            }
            self.live.link.send(question::refusal(&id, &message.method(), Some(unable)));
            return;
        }
        let Some(request) = question::to_input_request(message, (!self.alone).then_some(&self.server.plan.name)) else {
            self.live.link.send(question::refusal(&id, &message.method(), None));
            return;
        };
        let asked = AskedInput { id, method: message.method().into(), request: Bytes::copy_from_slice(&request) };
        let refused = self.router.tasks.lock().questions.asked(&self.key, self.live.key, asked);
        self.router.reply_to_tasks(refused.into_iter().collect());
        self.router.tasks.changed.notify_waiters();
    }
}

impl Drop for OutcomeHolder {
    fn drop(&mut self) {
        let open = {
            let mut state = self.router.tasks.lock();
            state.let_go(&self.key);
            state.questions.close(&self.key)
        };
        self.router.reply_to_tasks(open);
        self.router.tasks.changed.notify_waiters();
    }
}

impl RequestRouter {
    /// A server takes back what it asked in a task. Tells whether it was open.
    pub(crate) fn withdraw_from_task(&self, link: tidings_hub::LinkKey, message: &Frame) -> bool {
        let id = message.param(&["requestId"]).and_then(|at| RawId::from_raw(message.raw(at)));
        id.is_some_and(|id| self.tasks.lock().questions.withdrawn(link, &id))
    }
}
