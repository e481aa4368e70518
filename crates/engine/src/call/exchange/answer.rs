//! A server's answer in the terms of the client.

use serde_json::Value;
use tidings_proto::content::ContentView;
use tidings_proto::outcome::{self, AnswerReader, ClientAnswer};
use tidings_proto::{Era, code};
use tidings_wire::Frame;

use super::{Exchange, Stage};
use crate::call::routing::Routed;
use crate::client::session::Caller;

impl Exchange {
    pub(super) fn translate(&self, frame: &Frame) -> ClientAnswer {
        let Stage::Calling(calling) = &self.stage else {
            return ClientAnswer::error(&self.id, code::INTERNAL_ERROR, "the call is over");
        };
        self.translate_from(&calling.routed, calling.live.hello.revision.era(), frame)
    }

    pub(super) fn translate_from(&self, routed: &Routed, from: Era, frame: &Frame) -> ClientAnswer {
        let server = &routed.server;
        let identity = self.identity();
        let alone = self.router.pool.passthrough == Some(server.id);
        // Bound to the principal, the name and the arguments, so that a client can not take a state to another tool.
        let seal = |inner: &str| match alone {
            // The state of a server that is alone is its own: it guards it, and words its own refusals.
            true => inner.to_owned(),
            false => self.router.sealer.seal_state(&server.plan.name, inner, &self.binding(&routed.exposed)),
        };
        let reader = AnswerReader {
            method: self.method,
            from,
            content: ContentView {
                uris: &server.uris,
                revision: self.caller.revision(),
                view: self.router.runtime.settings.view,
            },
            identity: identity.as_deref(),
            url_elicitation: self.handles_urls(),
            verbatim: self.router.pool.is_alone(server),
            private: !self.caller.principal().is_anybody(),
            seal: &seal,
        };
        outcome::translate(frame, &self.id, &reader)
    }

    /// Whose name modern results carry, where it is not the server's own.
    fn identity(&self) -> Option<Vec<u8>> {
        if self.router.pool.passthrough.is_some() || self.caller.era() == Era::Legacy {
            return None;
        }
        let info =
            self.router.server_info(&self.router.catalogue.current(), self.caller.principal(), self.caller.revision());
        Some(info.to_string().into_bytes())
    }

    fn handles_urls(&self) -> bool {
        match &self.caller {
            Caller::Legacy(session) => {
                session.revision.refuses_with_urls()
                    // Without this capability a client of that revision could not open the page, so the refusal is
                    // worded for people.
                    && session.capabilities.get("elicitation").and_then(|e| e.get("url")).is_some_and(Value::is_object)
            }
            Caller::Modern(_) => false,
        }
    }
}
