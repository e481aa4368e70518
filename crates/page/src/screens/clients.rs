//! The clients that stay, and how each stands to what changed.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::parts::{PagePart, PagePlace, Shell, foreign};
use crate::screens::feed::encoded;

/// One client.
#[derive(Clone, Debug)]
pub struct ClientView {
    /// Unique while the gateway runs.
    pub id: u64,
    /// What it calls itself.
    pub name: String,
    /// Who is behind it.
    pub principal: String,
    /// `session`, `listen`, or `requests` of one that does not listen.
    pub kind: String,
    /// Its revision of the protocol.
    pub revision: String,
    /// Since when it is connected.
    pub since: Option<Timestamp>,
    /// `heard`, `owed`, `waiting`, `deaf`, `unreached`, `sent`, `not asking`, `silent` or `unknown`.
    pub state: String,
    /// Why, in words.
    pub reason: String,
    /// How many notices it was given.
    pub notices: u64,
    /// What is known of each list.
    pub lists: Vec<BeliefView>,
}

/// What a client was told of one list.
#[derive(Clone, Debug)]
pub struct BeliefView {
    /// Which list.
    pub list: String,
    /// When it was told of what it did not ask for since; or last.
    pub told: Option<Timestamp>,
    /// When it last asked.
    pub listed: Option<Timestamp>,
    /// Whether it asked, was told, and did not ask since.
    pub outdated: bool,
    /// How the client stands to it, in the same words.
    pub state: String,
}

/// Something that happened to a client.
#[derive(Clone, Debug)]
pub struct ClientEventView {
    /// When.
    pub time: Option<Timestamp>,
    /// Whether it was told; otherwise it listed.
    pub told: bool,
    /// The lists that it is about.
    pub lists: Vec<String>,
    /// When the first and the last commit were that a notice stands for; `None` if that is forgotten.
    pub commits: Option<(Timestamp, Timestamp)>,
}

/// All clients.
#[derive(Clone, Debug)]
pub struct ClientsScreen {
    /// Some of them: trouble first.
    pub clients: Vec<ClientView>,
    /// Which part they are.
    pub part: PagePart,
    /// Only those in this state; all if empty.
    pub state: String,
    /// Since when the gateway counts.
    pub since: Timestamp,
}

/// One client.
#[derive(Clone, Debug)]
pub struct ClientScreen {
    /// The client.
    pub client: ClientView,
    /// What happened to it, the newest first.
    pub events: Vec<ClientEventView>,
    /// Whether there were older events.
    pub older: bool,
    /// Since when the gateway counts.
    pub since: Timestamp,
}

/// The states, trouble first.
const STATES: [&str; 9] = ["deaf", "unreached", "owed", "waiting", "sent", "heard", "not asking", "unknown", "silent"];

/// Where a state stands among the others: trouble first.
pub fn client_rank(state: &str) -> u8 {
    look(state).0
}

/// The shape of a state, and its class; also for pages that are open.
pub fn client_state(state: &str) -> (&'static str, &'static str) {
    let (_, shape, class) = look(state);
    (shape, class)
}

fn look(state: &str) -> (u8, &'static str, &'static str) {
    match state {
        "deaf" => (0, "◆", "suspect"),
        "unreached" => (1, "▲", "bad"),
        "owed" => (2, "◔", "wait"),
        "waiting" => (3, "◐", "wait"),
        "sent" => (4, "◌", "off"),
        "not asking" => (6, "–", "off"),
        "unknown" => (7, "?", "off"),
        "silent" => (8, "○", "off"),
        _ => (5, "●", "ok"),
    }
}

fn standing(client: &ClientView) -> Markup {
    let (_, shape, class) = look(&client.state);
    html! { span class=(class) data-client=(client.id) { (shape) " " (client.state) } }
}

impl ClientsScreen {
    /// The page: trouble first.
    pub fn page(&self, shell: &Shell) -> String {
        let path = if self.state.is_empty() {
            "/clients".to_owned()
        } else {
            format!("/clients?state={}", encoded(&self.state))
        };
        let content = html! {
            form.filters method="get" action="/clients" {
                select name="state" aria-label="State" {
                    option value="" { "every state" }
                    @for state in STATES { option value=(state) selected[state == self.state] { (look(state).1) " " (state) } }
                }
                button { "Filter" }
                @if !self.state.is_empty() { a href="/clients" { "All" } }
            }
            a #pill href=(path) hidden {}
            @if self.clients.is_empty() && !self.state.is_empty() {
                div.empty { p { "No client is " (foreign(&self.state)) "." } }
            } @else if self.clients.is_empty() {
                div.empty { p { "Nobody is connected. Modern clients are shown while they listen for changes, and for ten minutes after they asked for a list." }
                    p { a href="/connect" { "Connect a client" } } }
            } @else {
                div.scroll { table.stack.fixed {
                    thead { tr { th scope="col" { "state" } th scope="col" { "client" } th scope="col" { "speaks" } th scope="col" { "why" } } }
                    tbody #clients data-total=[self.state.is_empty().then_some(self.part.total)] {
                        @for client in &self.clients {
                            tr.row tabindex="-1" data-href={ "/clients/" (client.id) } {
                                td.nowrap { (standing(client)) }
                                td { a href={ "/clients/" (client.id) } { (foreign(&client.name)) } " " span.muted { (client.kind) " " (client.id) " · " (foreign(&client.principal)) } }
                                td { (client.revision) @if let Some(since) = client.since { br; span.muted { "connected " (shell.ago(since)) } } }
                                td data-why=(client.id) { (client.reason) }
                            }
                        }
                    }
                } }
                (self.part.pager(&path, "Clients"))
            }
            p.muted { "◆ deaf: told, and 3 calls or 10 minutes passed without a list since. ▲ unreached: owed a notice for more than 5 s. Counted since the gateway was started, " (shell.ago(self.since)) "." }
        };
        shell.page(PagePlace::Clients, "Clients", &content)
    }
}

impl ClientScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let client = &self.client;
        let moment = |time: &Option<Timestamp>| html! { @match time { Some(time) => (shell.ago(*time)), None => span.muted { "not yet" } } };
        let content = html! {
            p #clients { (standing(client)) " " span data-why=(client.id) { (client.reason) } }
            p.muted { (client.kind) " " (client.id) " · revision " (client.revision) " · " (foreign(&client.principal))
                @if let Some(since) = client.since { " · connected " (shell.ago(since)) } }
            p { "It was given " (client.notices) @if client.notices == 1 { " notice" } @else { " notices" } " of lists that changed." }
            div.scroll { table.stack {
                thead { tr { th scope="col" { "list" } th scope="col" { "told" } th scope="col" { "listed" } th scope="col" { "believes" } } }
                tbody {
                    @for belief in &client.lists {
                        tr { td { strong { (belief.list) } } td { "told " (moment(&belief.told)) } td { "listed " (moment(&belief.listed)) } td { (believes(client, belief)) } }
                    }
                }
            } }
            h2 { "What happened" }
            @if self.events.is_empty() { p.muted { "Nothing yet." } }
            ol.rows {
                @for event in &self.events { (happened(shell, event)) }
            }
            @if self.older { p.muted { "Older events are not shown." } }
            p.muted { "Counted since the gateway was started, " (shell.ago(self.since)) "." }
            p { a href="/clients" { "◂ Clients" } }
        };
        shell.page(PagePlace::Clients, &client.name, &content)
    }
}

fn happened(shell: &Shell, event: &ClientEventView) -> Markup {
    let exact = |time: Timestamp| time.strftime("%H:%M:%S%.3f").to_string();
    html! {
        li.event {
            @if let Some(time) = event.time { span.muted { (shell.ago(time)) } " " }
            @if event.told { "told of " } @else { "listed " }
            (event.lists.join(", "))
            @if event.told {
                @match event.commits {
                    Some((first, last)) if first != last => span.muted { " for the commits from " (exact(first)) " to " (exact(last)) " UTC" },
                    Some((only, _)) => span.muted { " for the commit of " (exact(only)) " UTC" },
                    None => {}
                }
            }
        }
    }
}

/// What a client holds of one list, as far as that is known.
fn believes(client: &ClientView, belief: &BeliefView) -> Markup {
    html! {
        @if matches!(client.state.as_str(), "unknown" | "silent") { span.off { "? unknown" } }
        @else if belief.listed.is_none() { span.off { "? nothing: it did not list" } }
        @else if matches!(belief.state.as_str(), "deaf" | "waiting") {
            @let (_, shape, class) = look(&belief.state);
            span class=(class) { (shape) " an old list" }
        }
        @else if matches!(belief.state.as_str(), "owed" | "unreached") { span.wait { "◔ perhaps an old list: a notice is owed" } }
        @else if belief.state == "not asking" { span.off { "– what it last asked for: it is not told" } }
        @else if belief.state == "sent" && belief.outdated { span.off { "◌ perhaps an old list: it was sent a message" } }
        @else { "the present list" }
    }
}
