//! Which resources are followed, and by whom.

use maud::{Markup, html};

use crate::parts::{PagePart, PagePlace, Shell, foreign, plural};
use crate::screens::feed::encoded;

/// How many followers of one resource are shown.
const FOLLOWERS: usize = 8;

/// One resource that somebody follows.
#[derive(Clone, Debug)]
pub struct FollowView {
    /// Its server.
    pub server: String,
    /// Its URI, as clients know it.
    pub uri: String,
    /// `active`, `subscribing`, `polled`, `lingering`, `unsubscribing` or `unheard`.
    pub state: String,
    /// For how many seconds its server could not tell of its changes.
    pub unheard: Option<u64>,
    /// How many follow it.
    pub followers: usize,
    /// Some of them: number and name.
    pub clients: Vec<(u64, String)>,
}

/// What is followed.
#[derive(Clone, Debug)]
pub struct FollowsScreen {
    /// Some of it: trouble first.
    pub follows: Vec<FollowView>,
    /// Which part that is.
    pub part: PagePart,
    /// Of this server only; all if empty.
    pub server: String,
    /// Of this client only.
    pub client: Option<u64>,
    /// Every server of which something is followed.
    pub servers: Vec<String>,
}

/// Where a state stands among the others: trouble first.
pub fn follow_rank(state: &str) -> u8 {
    look(state).0
}

fn look(state: &str) -> (u8, &'static str, &'static str) {
    match state {
        "unheard" => (0, "▲", "bad"),
        "subscribing" => (1, "◐", "wait"),
        "active" => (2, "●", "ok"),
        "polled" => (3, "◷", "ok"),
        _ => (4, "○", "off"),
    }
}

impl FollowsScreen {
    /// The page: trouble first.
    pub fn page(&self, shell: &Shell) -> String {
        let mut path = format!("/follows?server={}", encoded(&self.server));
        if let Some(client) = self.client {
            path.push_str(&format!("&client={client}"));
        }
        let content = html! {
            form.filters method="get" action="/follows" {
                select name="server" aria-label="Server" {
                    option value="" { "every server" }
                    @for server in &self.servers { option value=(server) selected[*server == self.server] { (server) } }
                }
                button { "Filter" }
                @if !self.server.is_empty() || self.client.is_some() { a href="/follows" { "All" } }
            }
            @if let Some(client) = self.client { p { "Followed by " a href={ "/clients/" (client) } { "client " (client) } "." } }
            @if self.follows.is_empty() {
                div.empty {
                    p { "Nobody follows a resource. Try it, in another terminal:" }
                    pre { code { "tidings resources\ntidings watch URI" } }
                }
            } @else {
                div.scroll { table.stack {
                    thead { tr { th scope="col" { "state" } th scope="col" { "resource" } th scope="col" { "server" } th scope="col" { "followers" } } }
                    tbody { @for follow in &self.follows { (row(follow)) } }
                } }
                (self.part.pager(&path, "Resources"))
            }
            @if !self.follows.is_empty() && (self.client.is_some() || !self.server.is_empty()) { (self.map()) }
            p.muted { "● active: the server tells of changes. ◷ polled: it does not, and the resource is read from time to time. ▲ unheard: it refuses what it once agreed to." }
        };
        shell.page(PagePlace::Follows, "Follows", &content)
    }
}

/// How many nodes the map has at most.
const NODES: usize = 60;

impl FollowsScreen {
    /// Who follows what, of one client or server: clients on the left, then the resource, then its server.
    fn map(&self) -> Markup {
        let mut left = NODES;
        let mut shown = Vec::new();
        for follow in &self.follows {
            let clients = follow.clients.len().min(FOLLOWERS);
            // Its clients, what stands for the others, itself and its server.
            let nodes = clients + 3;
            if nodes > left {
                break;
            }
            left -= nodes;
            shown.push((follow, clients));
        }
        html! {
            h2 { "Map" }
            ol.map {
                @for (follow, clients) in &shown {
                    li {
                        ul.ends { @for (id, name) in follow.clients.iter().take(*clients) { li { a href={ "/clients/" (id) } { (foreign(name)) " " (id) } } }
                            @if follow.followers > *clients { li.muted { "+ " (follow.followers - clients) " more" } } }
                        span.edge aria-hidden="true" { "─▶" }
                        span.node { code { (foreign(&follow.uri)) } br; span class=(look(&follow.state).2) { (look(&follow.state).1) " " (follow.state) } }
                        span.edge aria-hidden="true" { "═▶" }
                        a.node href={ "/servers/" (encoded(&follow.server)) } { (foreign(&follow.server)) }
                    }
                }
            }
            @if shown.len() < self.follows.len() { p.muted { "… and " (self.follows.len() - shown.len()) " more in the table" } }
        }
    }
}

fn row(follow: &FollowView) -> Markup {
    let (_, shape, class) = look(&follow.state);
    html! {
        tr.row tabindex="-1" {
            td.nowrap { span class=(class) { (shape) " " (follow.state) }
                @if let Some(unheard) = follow.unheard { br; span.muted { "for " (unheard) " s" } } }
            td { code { (foreign(&follow.uri)) } }
            td { a href={ "/servers/" (encoded(&follow.server)) } { (foreign(&follow.server)) } " " a.muted href={ "/follows?server=" (encoded(&follow.server)) } { "map" } }
            td {
                (plural(follow.followers, "client"))
                @for (at, (id, name)) in follow.clients.iter().take(FOLLOWERS).enumerate() {
                    @if at == 0 { ": " } @else { ", " } a href={ "/clients/" (id) } { (foreign(name)) " " (id) }
                }
                @if follow.followers > FOLLOWERS { ", + " (follow.followers - FOLLOWERS) " more" }
            }
        }
    }
}
