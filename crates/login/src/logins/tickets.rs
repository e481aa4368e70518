//! Tickets: the pages of logins, who may open one, and how a login went.

use std::time::Instant;

use tokio::sync::watch;

use super::Logins;
use crate::authorization::fresh_secret;
use crate::pending::LoginOutcome;

/// How many tickets are remembered for calls.
const MOST_PAGES: usize = 256;

/// What a browser that opens a ticket is told.
pub(crate) struct OpenedTicket {
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) asker: String,
    /// Whether it is for that person alone.
    pub(crate) is_personal: bool,
    /// Whether it is the browser that opened it before, whose person has shown who they are. A cookie that nobody gave it says nothing.
    pub(crate) is_known_browser: bool,
}

impl Logins {
    /// A page where somebody can log in to a server.
    pub(crate) async fn page_for(&self, server: &str, asker: &str) -> Option<String> {
        self.0.base.get()?;
        let key = (server.to_owned(), asker.to_owned());
        let known = self.0.pages.lock().get(&key).cloned();
        if let Some(ticket) = known.filter(|ticket| self.0.pending.lock().is_unopened(ticket, Instant::now())) {
            return self.connect_url(&ticket);
        }
        let begun = self.begin(server, asker, false).await.ok()?;
        // A device shows its code on a terminal, and not on a page.
        begun.authorize.as_ref()?;
        let mut pages = self.0.pages.lock();
        // As many as there may be logins: each is for one of them.
        if pages.len() > MOST_PAGES {
            pages.clear();
        }
        pages.insert(key, begun.ticket.clone());
        self.connect_url(&begun.ticket)
    }

    /// The page that a browser opens to log in.
    pub fn connect_url(&self, ticket: &str) -> Option<String> {
        self.0.base.get().map(|base| format!("{base}/connect/{ticket}"))
    }

    /// How a login went; `None` when nobody knows it.
    pub fn outcome(&self, ticket: &str) -> Option<watch::Receiver<LoginOutcome>> {
        self.0.pending.lock().outcome(ticket, Instant::now())
    }

    /// A browser opens a ticket: which server it is about, who asked, and whether it is open for this one.
    pub(crate) fn open_ticket(&self, ticket: &str, cookie: Option<&str>) -> Option<OpenedTicket> {
        let mut pending = self.0.pending.lock();
        // A login whose state was taken is being ended, and a device has none: neither has a page.
        let login = pending.get(ticket, Instant::now()).filter(|login| !login.state.is_empty())?;
        // Single use: only the browser that opened it may load it again.
        if login.cookie.is_some() && login.cookie.as_deref() != cookie {
            return None;
        }
        Some(OpenedTicket {
            server: login.keeper.name().to_owned(),
            issuer: login.found.provider.issuer.clone(),
            asker: login.asker.clone(),
            is_personal: login.keeper.person().is_some(),
            is_known_browser: login.cookie.is_some(),
        })
    }

    /// The browser is known to be the asker's: where it goes, and what it is known by when it comes back.
    pub(crate) fn use_ticket(&self, ticket: &str, cookie: Option<&str>) -> Option<(String, String)> {
        let mut pending = self.0.pending.lock();
        let login = pending.get(ticket, Instant::now()).filter(|login| !login.state.is_empty())?;
        // Checked again: between the look and this, another browser may have been let in.
        if login.cookie.is_some() && login.cookie.as_deref() != cookie {
            return None;
        }
        // Only here, where the browser's person is known: given earlier, a cookie would prove nothing.
        let cookie = login.cookie.get_or_insert_with(fresh_secret).clone();
        Some((login.url.clone(), cookie))
    }
}
