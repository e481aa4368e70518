//! Carries out what [`tidings_hub::link_health`] wants: makes the checks, ends links, shows the state, keeps the time between attempts.
//!
//! Whoever owns a link watches over it: the task of its server over the one that all share, a task of its own over any other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidings_hub::link_health::{LinkCommand, LinkEvent, LinkState, RequestTrouble};
use tidings_proto::{Era, ListKind, Method, code};
use tidings_upstream::LinkError;
use tidings_wire::{Frame, FrameKind, get};

use crate::lifecycle::ServerLifecycle;
use crate::links::link_watch::{LinkWatch, trouble_of};
use crate::links::live_link::LiveLink;
use crate::links::open_links::OpenLinks;
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::status::ServerState;
use crate::servers::server::Server;

/// How long a check may take.
const CHECK: Duration = Duration::from_secs(5);

impl ServerLifecycle {
    /// Carries out what the machine wants for as long as the link lives; gives the reason when it has to end.
    pub(super) async fn watch_over(&self, server: &Arc<Server>, live: &LiveLink) -> LinkError {
        let watch = &live.watch;
        loop {
            match watch.next() {
                (Some(LinkCommand::Check), _) => match check(&self.links, live).await {
                    Ok(()) => watch.tell(LinkEvent::CheckAnswered),
                    Err((error, trouble)) => {
                        tracing::debug!(server = %server.plan.name, %error, "a check failed");
                        watch.check_failed(error, trouble);
                    }
                },
                (Some(LinkCommand::End(_)), _) => return watch.last_error().unwrap_or(LinkError::Lost),
                (Some(LinkCommand::Look), _) => server.unheard_lists(&ListKind::ALL),
                (Some(LinkCommand::ForgetEra), _) => server.forget_era(),
                // Users are shown the shared link alone; a companion that fails has no state of its own.
                (Some(LinkCommand::Show(state)), _) if server.is_shared(live.key) => {
                    show(&self.catalogue, watch, server, state);
                }
                // `Connect` is for when there is no link (`connect_due`).
                (Some(LinkCommand::Show(_) | LinkCommand::Connect), _) => {}
                (None, deadline) => watch.something_to_do(deadline).await,
            }
        }
    }

    /// Shows what is to be shown of the link that all share; nothing else is to be done where there is no link.
    pub(super) fn carry_out_what_is_shown(&self, server: &Server) {
        for command in server.health().take_commands() {
            match command {
                LinkCommand::Show(state) => show(&self.catalogue, server.health(), server, state),
                LinkCommand::ForgetEra => server.forget_era(),
                _ => {}
            }
        }
        server.health().done();
    }
}

/// Waits until the next attempt is due.
pub(super) async fn connect_due(server: &Server) {
    let watch = server.health();
    loop {
        match watch.next() {
            (Some(LinkCommand::Connect), _) => return,
            (Some(LinkCommand::ForgetEra), _) => server.forget_era(),
            (Some(_), _) => {}
            (None, deadline) => watch.something_to_do(deadline).await,
        }
    }
}

/// What was to be done for a link that is over. Whoever forgets it shows the state by itself, and then asks what is next.
pub(super) fn forget_commands(server: &Server) {
    if server.health().take_commands().contains(&LinkCommand::ForgetEra) {
        server.forget_era();
    }
}

fn show(catalogue: &CatalogueStore, watch: &LinkWatch, server: &Server, state: LinkState) {
    match state {
        LinkState::Failing => {
            let error = watch.last_error();
            let words = error.as_ref().map(LinkError::to_string);
            tracing::warn!(server = %server.plan.name, error = words, "does not answer");
            server.set_state(catalogue, ServerState::after(error.as_ref()), error.as_ref());
        }
        LinkState::Ready => {
            tracing::info!(server = %server.plan.name, "answers again");
            server.set_state(catalogue, ServerState::Ready, None);
        }
        LinkState::Connecting => server.set_state(catalogue, ServerState::Connecting, None),
    }
}

/// A request of our own that changes nothing: does the server still know us?
async fn check(links: &OpenLinks, live: &LiveLink) -> Result<(), (LinkError, RequestTrouble)> {
    let era = live.hello.revision.era();
    let method = match era {
        Era::Legacy => Method::Ping,
        Era::Modern => Method::Discover,
    };
    let outgoing = links.own_request(&live.hello, method, json!({}));
    // A check that is late is a failed one: a link that hangs must not be trusted for ever.
    let late = || Err(LinkError::Silent(CHECK.as_secs()));
    let answer = tokio::time::timeout(CHECK, live.link.call(outgoing).answer()).await.unwrap_or_else(|_| late());
    match answer {
        Ok(frame) => judge(era, &frame).map_err(|trouble| {
            // Enough for a person to see what answered, such as the page of a proxy.
            let said = String::from_utf8_lossy(&frame.bytes()[..frame.bytes().len().min(200)]).into_owned();
            match trouble {
                RequestTrouble::WrongEra => (LinkError::WrongEra(said), trouble),
                _ => (LinkError::Protocol(said), trouble),
            }
        }),
        Err(error) => {
            let trouble = trouble_of(&error).unwrap_or(RequestTrouble::NoAnswer);
            Err((error, trouble))
        }
    }
}

/// What the answer to a check says.
fn judge(era: Era, frame: &Frame) -> Result<(), RequestTrouble> {
    let outcome = frame.outcome().ok_or(RequestTrouble::NoAnswer)?;
    if frame.kind() == FrameKind::Response {
        // Anything can answer 200 with an object; only a modern server answers this.
        let is_hello = era == Era::Legacy || get(frame.bytes(), outcome, "supportedVersions").is_some();
        return is_hello.then_some(()).ok_or(RequestTrouble::WrongEra);
    }
    let code = get(frame.bytes(), outcome, "code").and_then(|at| std::str::from_utf8(at.of(frame.bytes())).ok());
    match code.and_then(|code| code.parse().ok()) {
        // Every server must answer a ping; one that does not know it is there all the same.
        Some(code::METHOD_NOT_FOUND) if era == Era::Legacy => Ok(()),
        // Nothing was wrong with the question in the era that it was asked in.
        Some(code::METHOD_NOT_FOUND | code::INVALID_REQUEST | code::INVALID_PARAMS) => Err(RequestTrouble::WrongEra),
        // A legacy server does not know these codes, so whoever sends them speaks the other era.
        Some(code) if code::is_modern(code) => Err(RequestTrouble::WrongEra),
        _ => Err(RequestTrouble::NoAnswer),
    }
}
