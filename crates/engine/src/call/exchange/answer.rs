//! A server's answer in the terms of the client.

use serde_json::Value;
use tidings_hub::tasks::TaskHome;
use tidings_proto::content::ContentView;
use tidings_proto::outcome::{self, AnswerReader, ClientAnswer, PartOfList, TaskIds};
use tidings_proto::question::Abilities;
use tidings_proto::task::TaskSpelling;
use tidings_proto::{Era, Method, TaskMethod, code, meta};
use tidings_wire::{Frame, FrameKind};

use super::{Exchange, Stage};
use crate::call::routing::Routed;
use crate::client::session::Caller;
use crate::servers::server_pool::uris_for;

impl Exchange {
    pub(super) fn translate(&self, frame: &Frame) -> ClientAnswer {
        let Stage::Calling(calling) = &self.stage else {
            return ClientAnswer::error(&self.id, code::INTERNAL_ERROR, "the call is over");
        };
        self.translate_from(&calling.routed, calling.live.hello.revision.era(), frame)
    }

    pub(super) fn translate_from(&self, routed: &Routed, from: Era, frame: &Frame) -> ClientAnswer {
        self.translate_as(self.method, self.followed.is_some(), routed, from, frame)
    }

    /// The outcome of a task, whatever the client asked to get it.
    pub(super) fn translate_outcome(&self, routed: &Routed, from: Era, frame: &Frame) -> ClientAnswer {
        self.translate_as(Method::Task(TaskMethod::Result), true, routed, from, frame)
    }

    fn translate_as(
        &self,
        method: Method,
        hides_tasks: bool,
        routed: &Routed,
        from: Era,
        frame: &Frame,
    ) -> ClientAnswer {
        let server = &routed.server;
        // Whose name modern results carry, where it is not the server's own.
        let (pool, asker) = (&self.router.pool, self.caller.principal());
        let names_us = self.caller.era() == Era::Modern && !pool.has_passthrough(asker);
        let alone = pool.is_passthrough(asker, server);
        // Bound to the principal, the name and the arguments, so that a client can not take a state to another tool.
        let seal = |inner: &str| match alone {
            // The state of a server that is alone is its own: it guards it, and words its own refusals.
            true => inner.to_owned(),
            false => self.router.sealer.seal_state(&server.plan.name, inner, &self.binding(&routed.exposed)),
        };
        let home = TaskHome::Server(TaskSpelling::of(from));
        let shown = |id: &str| self.router.shown_task(server, id, home, &asker.name);
        let tasks = match hides_tasks {
            true => TaskIds::Hidden,
            false if self.shows_tasks() => TaskIds::Sealed(&shown),
            false => TaskIds::Absent,
        };
        let page = self.page_of_skills();
        let sent = page.as_ref().and_then(|page| page.cursor.as_deref());
        // A server that repeats its cursor would keep its client for ever.
        let next =
            |own: Option<&str>| self.router.after_skills(&self.caller, server.id, own.filter(|own| Some(*own) != sent));
        let part = page.as_ref().map(|page| PartOfList { next: &next, is_whole: page.is_whole });
        let reader = AnswerReader {
            method,
            from,
            content: ContentView {
                uris: uris_for(&asker.scope, server),
                revision: self.caller.revision(),
                view: self.router.runtime.settings.view,
            },
            identity: names_us.then_some(&self.router.identity),
            url_elicitation: frame.kind() == FrameKind::Error && self.handles_urls(),
            asker: (!alone).then_some(server.plan.name.as_str()),
            verbatim: pool.is_alone(asker, server),
            private: !self.caller.principal().is_anybody(),
            seal: &seal,
            tasks,
            part,
        };
        outcome::translate(frame, &self.id, &reader)
    }

    pub(super) fn handles_urls(&self) -> bool {
        match &self.caller {
            Caller::Legacy(session) => {
                session.revision.refuses_with_urls()
                    // Without this capability a client of that revision could not open the page, so the refusal is
                    // worded for people.
                    && session.client.capabilities.get("elicitation").and_then(|e| e.get("url")).is_some_and(Value::is_object)
            }
            Caller::Modern(_) => {
                // By name and not by the caller's span: a call that was passed on has another frame.
                let declared = self.frame.param(&["_meta", meta::CLIENT_CAPABILITIES]);
                let declared = declared.and_then(|at| serde_json::from_slice(self.frame.raw(at)).ok());
                Abilities::read(&declared.unwrap_or_default(), self.caller.revision()).urls
            }
        }
    }
}
