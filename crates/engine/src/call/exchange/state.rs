//! The state that a client carries between the rounds of one request.

use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, PublicName};

use super::Exchange;
use crate::call::routing::Routed;
use crate::call::seal::{Binding, OpenedState, Sealer};
use crate::links::live_link::LiveLink;
use crate::plan::Source;

impl Exchange {
    /// What a multi-round request is bound to.
    pub(super) fn binding<'a>(&'a self, exposed: &'a PublicName) -> Binding<'a> {
        if let Some(detour) = &self.detour {
            return detour.binding(&self.caller.principal().name, self.method);
        }
        let arguments = self.frame.param(&["arguments"]).map(|at| self.frame.raw(at)).unwrap_or_default();
        let principal = &self.caller.principal().name;
        Binding { principal, method: self.method.as_str(), name: exposed.as_str(), arguments }
    }

    /// The server's own state inside the one that a retry carries; `Some(None)` when it is meant for another server.
    pub(super) fn open_state(
        &self,
        routed: &Routed,
        live: &LiveLink,
    ) -> Result<Option<Option<String>>, RequestRefusal> {
        let to = live.hello.revision.era();
        // A legacy request may carry a member of this name, but there it means nothing.
        if self.caller.era() == Era::Legacy {
            return Ok(None);
        }
        let Some(at) = self.frame.param(&["requestState"]) else { return Ok(None) };
        // Its own state, which a legacy server does not have: what is carried to one is ours, or made up.
        let (pool, principal) = (&self.router.pool, self.caller.principal());
        if pool.is_passthrough(principal, &routed.server) && to == Era::Modern {
            return Ok(None);
        }
        let sealed = tidings_wire::string_at(self.frame.bytes(), at)
            .ok_or_else(|| RequestRefusal::InvalidParams("params.requestState must be a string".into()))?;
        let opened = match self.router.sealer.open_state(&sealed, &self.binding(&routed.exposed)) {
            Ok(opened) => opened,
            // A call that waits at the replica that runs the server: that one knows the state.
            Err(_)
                if routed.server.is_elsewhere()
                    && !routed.server.leads_past_owner(&live.watch)
                    && Sealer::looks_like_state(self.frame.raw(at)) =>
            {
                return Ok(None);
            }
            // It may be the own state of the server that is alone; whoever is called in the place of this one will know. One of ours is
            // not: a call that waited and is gone must not run a second time.
            Err(_)
                if pool.has_passthrough(principal)
                    && matches!(routed.server.plan.source, Source::Local(_))
                    && !Sealer::looks_like_state(self.frame.raw(at)) =>
            {
                return Ok(Some(None));
            }
            Err(fault) => return Err(fault.into()),
        };
        let (server, inner) = match opened {
            OpenedState::Wrap { server, inner } => (server, inner),
            // It would have been found: nothing of it is sent anywhere.
            OpenedState::Park { .. } => return Err(RequestRefusal::ParkLost),
        };
        if server == routed.server.plan.name {
            if to == Era::Legacy && self.router.runtime.fleet.is_some() {
                // What another replica put around the state of a call that waited here, and is gone: it must not run a second time.
                return Err(RequestRefusal::ParkLost);
            }
            return Ok(Some(Some(inner)));
        }
        match routed.server.plan.source {
            // It will have the same tool called as before, and that one's server gets it.
            Source::Local(_) | Source::Unready(_) => Ok(Some(None)),
            Source::Remote(_) => Err(RequestRefusal::InvalidState("it belongs to another server")),
        }
    }
}
