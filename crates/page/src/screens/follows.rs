//! Which resources are followed, and by whom.

use maud::{Markup, html};

use crate::parts::{PagePlace, Shell, foreign, plural};
use crate::screens::feed::encoded;

/// How many resources, and how many followers of one, are shown.
const RESOURCES: usize = 200;
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
    /// All of it, in any order.
    pub follows: Vec<FollowView>,
    /// Of this server only; all if empty.
    pub server: String,
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
        let mut follows: Vec<&FollowView> =
            self.follows.iter().filter(|follow| self.server.is_empty() || follow.server == self.server).collect();
        follows.sort_by_key(|follow| (look(&follow.state).0, &follow.server, &follow.uri));
        let mut servers: Vec<&str> = self.follows.iter().map(|follow| follow.server.as_str()).collect();
        servers.sort_unstable();
        servers.dedup();
        let content = html! {
            form.filters method="get" action="/follows" {
                select name="server" aria-label="Server" {
                    option value="" { "every server" }
                    @for server in servers { option value=(server) selected[server == self.server] { (server) } }
                }
                button { "Filter" }
                @if !self.server.is_empty() { a href="/follows" { "All" } }
            }
            @if follows.is_empty() {
                div.empty {
                    p { "Nobody follows a resource. Try it, in another terminal:" }
                    pre { code { "tidings resources\ntidings watch URI" } }
                }
            } @else {
                div.scroll { table.stack {
                    thead { tr { th scope="col" { "state" } th scope="col" { "resource" } th scope="col" { "server" } th scope="col" { "followers" } } }
                    tbody { @for follow in follows.iter().take(RESOURCES) { (row(follow)) } }
                } }
                @if follows.len() > RESOURCES { p.muted { "… and " (follows.len() - RESOURCES) " more: " code { "tidings subscriptions" } } }
            }
            p.muted { "● active: the server tells of changes. ◷ polled: it does not, and the resource is read from time to time. ▲ unheard: it refuses what it once agreed to." }
        };
        shell.page(PagePlace::Follows, "Follows", &content)
    }
}

fn row(follow: &FollowView) -> Markup {
    let (_, shape, class) = look(&follow.state);
    html! {
        tr.row tabindex="-1" {
            td.nowrap { span class=(class) { (shape) " " (follow.state) }
                @if let Some(unheard) = follow.unheard { br; span.muted { "for " (unheard) " s" } } }
            td { code { (foreign(&follow.uri)) } }
            td { a href={ "/servers/" (encoded(&follow.server)) } { (foreign(&follow.server)) } }
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
