//! Which resources are followed, and by whom: a table, and a map of one resource, client or server.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::fingerprint;
use crate::parts::{PagePart, PagePlace, Shell, foreign, plain, plural};
use crate::screens::feed::encoded;

/// How many followers of one resource are shown.
const FOLLOWERS: usize = 8;
/// How many nodes the map has at most.
const NODES: usize = 60;

/// One resource that somebody follows.
#[derive(Clone, Debug)]
pub struct FollowView {
    /// By what a page that is open is told of it ([`follow_key`]).
    pub key: u64,
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
    /// How often changes of it were put to them.
    pub announced: u32,
    /// When that was last.
    pub last: Option<Timestamp>,
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
    /// This resource only, as clients know it; all if empty.
    pub uri: String,
    /// Every server of which something is followed.
    pub servers: Vec<String>,
}

/// A resource by its server and by what that server calls it, for pages that are open.
pub fn follow_key(server: &str, local: &str) -> u64 {
    // Names of servers have no line breaks.
    let server = fingerprint(server.as_bytes(), crate::FINGERPRINT);
    fingerprint(local.as_bytes(), fingerprint(b"\n", server))
}

/// Where a state stands among the others: trouble first.
pub fn follow_rank(state: &str) -> u8 {
    look(state).0
}

/// The shape of a state, and its class; also for pages that are open.
pub fn follow_state(state: &str) -> (&'static str, &'static str) {
    let (_, shape, class) = look(state);
    (shape, class)
}

/// How often something changed, in words.
pub fn follow_changes(announced: u32) -> String {
    match announced {
        0 => "no change yet".to_owned(),
        count => plural(count as usize, "change"),
    }
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
        let is_filtered = !self.server.is_empty() || self.client.is_some() || !self.uri.is_empty();
        let path = self.path();
        let content = html! {
            form.filters method="get" action="/follows" {
                select name="server" aria-label="Server" {
                    option value="" { "every server" }
                    @if !self.server.is_empty() && !self.servers.contains(&self.server) { option value=(self.server) selected { (plain(&self.server)) } }
                    @for server in &self.servers { option value=(server) selected[*server == self.server] { (server) } }
                }
                button { "Filter" }
                @if is_filtered { a href="/follows" { "All" } }
            }
            @if let Some(client) = self.client { p { "Followed by " a href={ "/clients/" (client) } { "client " (client) } "." } }
            @if !self.uri.is_empty() { p { "Only " code { (foreign(&self.uri)) } "." } }
            a #pill href=(path) hidden {}
            @if self.follows.is_empty() && is_filtered {
                div.empty { p { "Nobody follows what was asked for." } }
            } @else if self.follows.is_empty() {
                div.empty {
                    p { "Nobody follows a resource. Try it, in another terminal:" }
                    pre { code { "tidings resources\ntidings watch URI" } }
                }
            } @else if is_filtered { (self.map(shell)) }
            // Also where it is empty: by its number the page knows that something came.
            div.scroll { table.stack hidden[self.follows.is_empty()] {
                thead { tr { th scope="col" { "state" } th.wide scope="col" { "resource" } th scope="col" { "server" } th scope="col" { "changes" } th scope="col" { "followers" } } }
                tbody #follows data-total=[(!is_filtered).then_some(self.part.total)] { @for follow in &self.follows { (row(shell, follow)) } }
            } }
            (self.part.pager(&path, "Resources"))
            p.muted { "● active: the server tells of changes. ◷ polled: it does not, and the resource is read from time to time. ▲ unheard: it refuses what it once agreed to." }
        };
        shell.page(PagePlace::Follows, "Follows", &content)
    }

    fn path(&self) -> String {
        let mut path = format!("/follows?server={}", encoded(&self.server));
        if let Some(client) = self.client {
            path.push_str(&format!("&client={client}"));
        }
        if !self.uri.is_empty() {
            path.push_str(&format!("&uri={}", encoded(&self.uri)));
        }
        path
    }

    /// Who follows what, of one resource, client or server: clients on the left, then the resource, then its server.
    fn map(&self, shell: &Shell) -> Markup {
        let mut left = NODES;
        let mut shown = Vec::new();
        for follow in &self.follows {
            // Of one resource as many as there is room for.
            let most = if self.uri.is_empty() { FOLLOWERS } else { NODES - 3 };
            let clients = follow.clients.len().min(most);
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
                        span.edge aria-hidden="true" data-edge=(key(follow)) { "─▶" }
                        div.node { code { (foreign(&follow.uri)) } p { (state(follow)) } p.muted { (changes(shell, follow)) } }
                        span.edge aria-hidden="true" data-edge=(key(follow)) { "═▶" }
                        a.node href={ "/servers/" (encoded(&follow.server)) } { (foreign(&follow.server)) }
                    }
                }
            }
            @if shown.len() < self.follows.len() { p.muted { "… and " (self.follows.len() - shown.len()) " more in the table" } }
        }
    }
}

fn key(follow: &FollowView) -> String {
    format!("{:016x}", follow.key)
}

fn state(follow: &FollowView) -> Markup {
    let (_, shape, class) = look(&follow.state);
    html! { span class=(class) data-follow=(key(follow)) { (shape) " " (follow.state) } }
}

/// How often it changed, and when last. The place of the time is there from the beginning: nothing moves when it is filled.
fn changes(shell: &Shell, follow: &FollowView) -> Markup {
    html! {
        span data-changes=(key(follow)) { (follow_changes(follow.announced)) } " "
        span.when data-when=(key(follow)) { @if let Some(last) = follow.last { (shell.ago(last)) } @else { time hidden {} } }
    }
}

fn row(shell: &Shell, follow: &FollowView) -> Markup {
    let one = format!("/follows?server={}&uri={}", encoded(&follow.server), encoded(&follow.uri));
    html! {
        tr.row tabindex="-1" data-href=(one) {
            td.nowrap { (state(follow))
                @if let Some(unheard) = follow.unheard { br; span.muted { "for " (unheard) " s" } } }
            td { code { (foreign(&follow.uri)) } " " a.muted href=(one) { "map" } }
            td { a href={ "/servers/" (encoded(&follow.server)) } { (foreign(&follow.server)) } " " a.muted href={ "/follows?server=" (encoded(&follow.server)) } { "map" } }
            td { (changes(shell, follow)) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screens::feed::tests::shell;

    fn follow(number: u64, clients: usize) -> FollowView {
        let hostile = "<script>alert(1)</script>\u{202e}";
        FollowView {
            key: number,
            server: format!("notes{hostile}"),
            uri: format!("file:///{number}{hostile}"),
            state: "active".to_owned(),
            unheard: None,
            followers: clients,
            clients: (0..clients.min(64) as u64).map(|id| (id, format!("client{hostile}"))).collect(),
            announced: 3,
            last: Some("2026-11-16T11:59:58Z".parse().expect("a time")),
        }
    }

    fn screen(follows: Vec<FollowView>) -> FollowsScreen {
        let part = PagePart { from: 0, shown: follows.len(), total: follows.len() };
        FollowsScreen { follows, part, server: String::new(), client: None, uri: String::new(), servers: Vec::new() }
    }

    fn nodes(page: &str) -> usize {
        let map = page.split("<h2>Map</h2>").nth(1).and_then(|rest| rest.split("</ol>").next()).unwrap_or_default();
        // A client each, what stands for the others, the resource and its server.
        map.matches("href=\"/clients/").count()
            + map.matches("more</li>").count()
            + map.matches("class=\"node\"").count()
    }

    #[test]
    fn the_map_is_of_one_resource_client_or_server_and_bounded() {
        let many: Vec<FollowView> = (0..50).map(|number| follow(number, 5_000)).collect();
        assert_eq!(nodes(&screen(many.clone()).page(&shell())), 0, "everything is a table");
        for narrowed in [
            FollowsScreen { server: "notes".to_owned(), ..screen(many.clone()) },
            FollowsScreen { client: Some(7), ..screen(many) },
        ] {
            let page = narrowed.page(&shell());
            assert!((NODES - 11..=NODES).contains(&nodes(&page)), "{}", nodes(&page));
            assert!(page.contains("+ 4992 more") && page.contains("more in the table"), "{page}");
        }
        let one = FollowsScreen { uri: "file:///0".to_owned(), ..screen(vec![follow(0, 5_000)]) };
        let page = one.page(&shell());
        assert_eq!(nodes(&page), NODES);
        assert!(page.contains("+ 4943 more") && page.contains("3 changes"), "{page}");
    }

    #[test]
    fn hostile_names_are_text_and_empty_screens_say_why() {
        let page = FollowsScreen { server: "x".to_owned(), ..screen(vec![follow(1, 3)]) }.page(&shell());
        assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'), "{page}");
        assert!(screen(Vec::new()).page(&shell()).contains("tidings watch URI"));
        let asked = FollowsScreen { uri: "file:///none".to_owned(), ..screen(Vec::new()) };
        assert!(asked.page(&shell()).contains("Nobody follows what was asked for"));
    }

    #[test]
    fn two_resources_have_two_keys() {
        assert_ne!(follow_key("a", "bc"), follow_key("ab", "c"));
        assert_ne!(follow_key("a", "b"), follow_key("b", "a"));
        assert_eq!(follow_key("a", "b"), follow_key("a", "b"));
    }
}
