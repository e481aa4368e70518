//! Skills of several servers: which of them a request is for.
//!
//! `skills/list` is answered page by page, and each page is one of one server, in the order of the servers: the cursor says whose is
//! next. So no request waits for the slowest server or is sent to several, nothing is kept here that could be old, and no entry is
//! cut. The other methods go to the server that the URI belongs to.

use std::sync::Arc;

use tidings_hub::ServerId;
use tidings_hub::policy::ServerAccess;
use tidings_proto::outbound::RequestTarget;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Method, PublicName, SkillMethod, extensions};
use tidings_wire::{Frame, string_at};

use crate::call::RequestRouter;
use crate::call::routing::Routed;
use crate::client::principal::Principal;
use crate::client::session::Caller;
use crate::servers::server::Server;

/// Whose part of the list a page is.
pub(crate) struct SkillsPage {
    pub(crate) server: Arc<Server>,
    /// The server's own cursor.
    pub(crate) cursor: Option<String>,
    /// No other server has skills.
    pub(crate) is_whole: bool,
}

impl RequestRouter {
    /// Finds the server. None where the list is at its end.
    pub(crate) async fn route_skills(
        &self,
        caller: &Caller,
        frame: &Frame,
        asked: SkillMethod,
    ) -> Result<Option<Routed>, RequestRefusal> {
        if self.catalogue.starting() {
            self.catalogue.wait_settled().await;
        }
        let principal = caller.principal();
        let alone = self.pool.passthrough_for(principal).and_then(|server| self.pool.server(server));
        if let Some(alone) =
            alone.filter(|server| self.pool.is_alone(principal, server) && self.has_all_of(principal, server))
        {
            return Ok(Some(whole(alone)));
        }
        if asked == SkillMethod::List {
            return Ok(self.skills_page(caller, frame)?.map(|page| whole(page.server)));
        }
        let unknown = |uri: &str| RequestRefusal::InvalidParams(format!("no server has a skill at {uri}"));
        // What a skill has is found as its files are.
        let routed = self.route(caller, frame, Method::ResourcesRead).await.map_err(|refusal| match refusal {
            RequestRefusal::UnknownResource(uri) => unknown(&uri),
            other => other,
        })?;
        let catalogue = self.catalogue.current();
        let hello = catalogue.server(routed.server.id).and_then(|status| status.hello.as_ref());
        let has_skills = hello.is_some_and(|hello| extensions::has_skills(&hello.capabilities));
        match asked {
            // A skill names all its files, also those that rules keep from somebody.
            _ if !has_skills || !self.has_all_of(principal, &routed.server) => Err(unknown(routed.exposed.as_str())),
            // It must not be asked.
            SkillMethod::ReadDirectory
                if !hello.is_some_and(|hello| extensions::reads_directories(&hello.capabilities)) =>
            {
                let reason = "the server of this URI does not declare directoryRead";
                Err(RequestRefusal::Unroutable { method: asked.as_str().to_owned(), reason })
            }
            _ => Ok(Some(routed)),
        }
    }

    /// The page that a `skills/list` asks for. None at the end of the list.
    pub(crate) fn skills_page(&self, caller: &Caller, frame: &Frame) -> Result<Option<SkillsPage>, RequestRefusal> {
        let having = self.servers_with_skills(caller.principal());
        let Some(cursor) = frame.param(&["cursor"]) else {
            let first = having.first().cloned();
            if first.is_none() && !promises_skills(caller) {
                let reason = "no server declares skills";
                return Err(RequestRefusal::Unroutable { method: SkillMethod::List.as_str().to_owned(), reason });
            }
            return Ok(first.map(|server| SkillsPage { server, cursor: None, is_whole: having.len() == 1 }));
        };
        let cursor = string_at(frame.bytes(), cursor);
        let opened = cursor.and_then(|cursor| self.sealer.open_skills_cursor(caller.revision(), &cursor));
        let (at, own) = opened.ok_or(RequestRefusal::InvalidCursor)?;
        // One that has gone since is passed over, and its cursor with it.
        let server = having.iter().find(|server| server.id >= at).cloned();
        Ok(server.map(|server| {
            let cursor = own.filter(|_| server.id == at);
            SkillsPage { server, cursor, is_whole: having.len() == 1 }
        }))
    }

    /// Where the list goes on after a page of this server: at the server's own cursor, or with the next server.
    pub(crate) fn after_skills(&self, caller: &Caller, server: ServerId, own: Option<&str>) -> Option<String> {
        let seal = |server, own| self.sealer.seal_skills_cursor(caller.revision(), server, own);
        if own.is_some() {
            return Some(seal(server, own));
        }
        let having = self.servers_with_skills(caller.principal());
        having.iter().find(|other| other.id > server).map(|next| seal(next.id, None))
    }

    /// Whether the rules keep nothing of a server from somebody. A list of skills is the server's own: what must not be seen could not be
    /// taken out of it.
    fn has_all_of(&self, principal: &Principal, server: &Server) -> bool {
        principal.may_use(&server.plan) && self.pool.access_by_rules(principal, server) == ServerAccess::Everything
    }

    /// In the order of all lists.
    fn servers_with_skills(&self, principal: &Principal) -> Vec<Arc<Server>> {
        let catalogue = self.catalogue.current();
        let has_skills = |server: &&Arc<Server>| {
            let hello = catalogue.server(server.id).and_then(|status| status.hello.as_ref());
            self.has_all_of(principal, server) && hello.is_some_and(|hello| extensions::has_skills(&hello.capabilities))
        };
        self.pool.servers().iter().filter(has_skills).cloned().collect()
    }
}

/// A request that names nothing of its server.
fn whole(server: Arc<Server>) -> Routed {
    Routed {
        server,
        target: RequestTarget::nothing(),
        exposed: PublicName::default(),
        is_listed: false,
        headers: None,
        tried: None,
        lacking: None,
    }
}

/// Whether a client may have been told of skills before it was known whether there are some.
fn promises_skills(caller: &Caller) -> bool {
    match caller {
        Caller::Legacy(session) => {
            extensions::carried_of(&session.client.capabilities, caller.era()).contains_key(extensions::SKILLS)
        }
        // What these are told is true at that moment.
        Caller::Modern(_) => false,
    }
}
