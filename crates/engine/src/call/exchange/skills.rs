//! A request about skills, where several servers may have some.

use std::time::Duration;

use tidings_proto::outbound::StateChange;
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, SkillMethod};
use tidings_wire::{Frame, FrameKind, encode_string};

use super::{Exchange, Repetition, Reply};
use crate::call::skills::SkillsPage;
use crate::servers::server::Server;

/// How long one server may take for its part of the list: the client waits for all of them, one after the other.
pub(super) const PART: Duration = Duration::from_secs(10);

impl Exchange {
    /// Routes the request and sends it.
    pub(super) async fn ask_for_skills(&mut self, asked: SkillMethod) -> Result<Option<Reply>, RequestRefusal> {
        let Some(routed) = self.router.route_skills(&self.caller, &self.frame, asked).await? else {
            return Ok(Some(Reply::Answer(self.no_skills(None))));
        };
        let live = self.link_to(&routed.server).await?;
        self.begin(routed, live, Repetition::Possible)
    }

    /// Whether one server of several is asked for its part of a list: nobody is led to a login for that.
    pub(super) fn asks_for_many(&self) -> bool {
        self.method == Method::Skills(SkillMethod::List) && self.page_of_skills().is_some_and(|page| !page.is_whole)
    }

    /// Whether what this server answers is only a part of the list.
    pub(super) fn is_part_of_skills(&self, server: &Server) -> bool {
        self.method == Method::Skills(SkillMethod::List) && !self.router.pool.is_alone(self.caller.principal(), server)
    }

    /// The page that this request asks for, if it is one of a list of several servers.
    pub(super) fn page_of_skills(&self) -> Option<SkillsPage> {
        if self.method != Method::Skills(SkillMethod::List) {
            return None;
        }
        let page = self.router.skills_page(&self.caller, &self.frame).ok().flatten()?;
        (!self.router.pool.is_alone(self.caller.principal(), &page.server)).then_some(page)
    }

    /// The page that answers the request in the place of a server which does not: what the others have must not depend on it. One that
    /// has all of the list speaks for itself.
    fn passed_over(&self, reason: &str) -> Option<ClientAnswer> {
        let SkillsPage { server, .. } = self.page_of_skills().filter(|page| !page.is_whole)?;
        tracing::info!(server = %server.plan.name, reason, "its skills are left out of the list");
        Some(self.no_skills(self.router.after_skills(&self.caller, server.id, None)))
    }

    /// In the place of an error that a server answered with.
    pub(super) fn pass_over_error(&self, frame: &Frame) -> Option<ClientAnswer> {
        let is_one = frame.kind() == FrameKind::Error && self.method == Method::Skills(SkillMethod::List);
        is_one.then(|| self.passed_over("it answered with an error")).flatten()
    }

    /// In the place of a server that can not be asked, or is late.
    pub(super) fn pass_over_refusal(&self, refusal: &RequestRefusal) -> Option<ClientAnswer> {
        use RequestRefusal::{NeedsLogin, ServerDown, TimedOut};
        let is_one = matches!(refusal, NeedsLogin { .. } | ServerDown { .. } | TimedOut { .. });
        is_one.then(|| self.passed_over(&refusal.to_string())).flatten()
    }

    fn no_skills(&self, next: Option<String>) -> ClientAnswer {
        let hints = match self.caller.era() {
            Era::Modern => r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#,
            Era::Legacy => "",
        };
        let next = next.map(|next| format!(r#""nextCursor":{},"#, encode_string(&next))).unwrap_or_default();
        ClientAnswer::result(&self.id, format!(r#"{{{hints}{next}"skills":[]}}"#).as_bytes())
    }
}

impl SkillsPage {
    /// What the server gets in the place of the client's cursor.
    pub(super) fn change(&self) -> StateChange<'_> {
        self.cursor.as_deref().map_or(StateChange::Remove, StateChange::Set)
    }
}
