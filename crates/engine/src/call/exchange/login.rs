//! A call to a server that a person has to log in to first: who may is given a page for it, in the words of its era.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tidings_proto::outcome::{ClientAnswer, failed_tool};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, code};
use tidings_wire::{encode_string, error_response};

use super::{Exchange, Reply, Stage};

/// How long finding the page may take: the provider is asked for it.
const PAGE: Duration = Duration::from_secs(15);

/// What is known of the login that a call lacks.
pub(super) struct NeededLogin {
    pub(super) server: String,
    pub(super) refusal: RequestRefusal,
    /// Whether the login is all that the call is about.
    pub(super) is_all: bool,
}

impl Exchange {
    /// Answers the call with the page where its user can log in, or with the reason.
    pub(super) async fn ask_for_login(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        if let Stage::LoggingIn(needed) = &self.stage
            && needed.is_all
            && self.comes_back_with_answers()
            && let Some(server) = self.router.pool.servers().named(&needed.server, false)
        {
            // Whoever agreed to visit the page is on it. May be called away here, and come back.
            self.router.pool.logged_in(&self.caller, server).await;
            if !self.router.pool.needs_login(&self.caller, server) {
                let said = format!("You are logged in to {}.", server.plan.name);
                self.stage = Stage::Over;
                return Ok(Some(Reply::Answer(self.said(&said))));
            }
        }
        let Stage::LoggingIn(needed) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        let page = match self.login_page(&needed.server) {
            Some(page) => tokio::time::timeout(PAGE, page).await.ok().flatten(),
            None => None,
        };
        Ok(Some(Reply::Answer(self.login_answer(&needed, page.as_deref()))))
    }

    /// The call asks for nothing but a login of whoever makes it.
    pub(super) fn wants_login(&mut self, server: String) -> Option<Reply> {
        let Stage::Calling(calling) = &self.stage else { return None };
        // Taken out by somebody else: it was cancelled.
        if self.router.links.in_flight.finish(calling.call).is_none() {
            return Some(Reply::Cancelled);
        }
        let reason = "needs a login of yours".to_owned();
        let refusal = RequestRefusal::NeedsLogin { server: server.clone(), reason };
        self.stage = Stage::LoggingIn(Box::new(NeededLogin { server, refusal, is_all: true }));
        None
    }

    fn said(&self, text: &str) -> ClientAnswer {
        let kind = if self.caller.era() == Era::Modern { r#""resultType":"complete","# } else { "" };
        let result = format!(r#"{{{kind}"content":[{{"type":"text","text":{}}}]}}"#, encode_string(text));
        ClientAnswer::result(&self.id, result.as_bytes())
    }

    /// Only for those who may log in for all, unless each person logs in for themselves.
    fn login_page(&self, server: &str) -> Option<BoxFuture<'static, Option<String>>> {
        let principal = self.caller.principal();
        let servers = self.router.pool.servers();
        let credential = servers.named(server, false)?.plan.source.credential()?;
        (principal.is_admin() || credential.0.is_personal()).then(|| credential.0.login_page(&principal.name))
    }

    fn login_answer(&self, needed: &NeededLogin, page: Option<&str>) -> ClientAnswer {
        let (era, words) = (self.caller.era(), needed.refusal.to_string());
        let asks = page.is_some() && self.handles_urls() && self.method.may_require_input();
        let (url, said) = (encode_string(page.unwrap_or_default()), encode_string(&words));
        match (page, era) {
            // There is no state: what the client sends next is a new call.
            (Some(_), Era::Modern) if asks => ClientAnswer::result(
                &self.id,
                format!(
                    r#"{{"resultType":"input_required","inputRequests":{{"login":{{"method":"elicitation/create","params":{{"mode":"url","url":{url},"message":{said}}}}}}}}}"#
                )
                .as_bytes(),
            ),
            (Some(page), Era::Legacy) if asks => {
                // The ticket in the address is as good an id as any: nobody else has it.
                let id = encode_string(page.rsplit('/').next().unwrap_or_default());
                let data = format!(
                    r#"{{"elicitations":[{{"mode":"url","elicitationId":{id},"url":{url},"message":{said}}}]}}"#
                );
                self.login_error(code::URL_ELICITATION_REQUIRED, &words, &data)
            }
            (page, _) if self.method == Method::ToolsCall => {
                let page = page.map(|page| format!("\n{page}")).unwrap_or_default();
                failed_tool(&self.id, &format!("{words}{page}"), era)
            }
            (Some(_), _) => self.login_error(code::INTERNAL_ERROR, &words, &format!(r#"{{"url":{url}}}"#)),
            (None, _) => self.refuse(&needed.refusal),
        }
    }

    fn login_error(&self, code: i64, words: &str, data: &str) -> ClientAnswer {
        let payload = error_response(Some(&self.id), code, words, Some(data.as_bytes())).into();
        ClientAnswer { payload, error: Some(code) }
    }

    /// Whether the client comes back with answers: of somebody who was shown the page.
    pub(super) fn comes_back_with_answers(&self) -> bool {
        self.caller.era() == Era::Modern && self.frame.param(&["inputResponses"]).is_some()
    }
}
