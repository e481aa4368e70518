//! The servers, and one of them.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::parts::{PagePart, PagePlace, Shell, foreign, plural};
use crate::screens::feed::encoded;
use crate::screens::tool::tool_path;
use crate::spark::spark;

/// One server.
#[derive(Clone, Debug, Default)]
pub struct ServerView {
    /// Its configured name.
    pub name: String,
    /// `ready`, `connecting`, `failing`, `needs login`, `disabled`.
    pub state: String,
    /// Where it is configured.
    pub source: String,
    /// How it is reached.
    pub transport: String,
    /// Its revision of the protocol.
    pub revision: String,
    /// How many tools, prompts and resources (with templates) it lists.
    pub counts: [usize; 3],
    /// How large its tools are, in bytes.
    pub bytes: usize,
    /// How long its last calls took, the oldest first, in microseconds; empty where calls are not recorded.
    pub calls: Vec<u64>,
    /// Since when it is in its state.
    pub since: Option<Timestamp>,
    /// How often it was connected.
    pub connects: u64,
    /// Why it fails.
    pub error: Option<String>,
    /// What is strange about it.
    pub warning: Option<String>,
    /// Lists that it can not give: which, why, and in how many seconds it is asked again.
    pub failed_lists: Vec<(String, String, u64)>,
    /// Definitions that wait for approval.
    pub held: usize,
    /// Whether it can be restarted and switched from here.
    pub is_ours: bool,
    /// Whether a person can log in to it.
    pub has_login: bool,
    /// Where each person logs in for themselves: how many are logged in, and how many have to.
    pub people: Option<(usize, usize)>,
}

/// All servers.
#[derive(Clone, Debug)]
pub struct ServersScreen {
    /// Some of them: trouble first.
    pub servers: Vec<ServerView>,
    /// Which part they are.
    pub part: PagePart,
    /// Only those in this state; all if empty.
    pub state: String,
    /// Only those whose name has this in it.
    pub query: String,
}

/// The states, trouble first.
const STATES: [&str; 5] = ["failing", "needs login", "connecting", "ready", "disabled"];

/// Where a state stands among the others: trouble first.
pub fn server_rank(state: &str) -> u8 {
    rank(state)
}

/// The shape of a state, and its class; also for pages that are open.
pub fn server_state(state: &str) -> (&'static str, &'static str) {
    match state {
        "failing" | "needs login" => ("▲", "bad"),
        "connecting" => ("◐", "wait"),
        "ready" => ("●", "ok"),
        _ => ("○", "off"),
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct ServerScreen {
    /// The server.
    pub server: ServerView,
    /// Its tools: name and description.
    pub tools: Vec<(String, String)>,
    /// The last that was logged of it, the oldest first.
    pub log: Vec<String>,
}

fn rank(state: &str) -> u8 {
    match state {
        "failing" | "needs login" => 0,
        "connecting" => 1,
        "ready" => 2,
        _ => 3,
    }
}

fn state(server: &ServerView) -> Markup {
    let (shape, class) = server_state(&server.state);
    html! { span class=(class) data-server-state=(server.name) { (shape) " " (server.state) } }
}

impl ServerView {
    fn offers(&self) -> String {
        let [tools, prompts, resources] = self.counts;
        let mut out = vec![plural(tools, "tool")];
        if prompts > 0 {
            out.push(plural(prompts, "prompt"));
        }
        if resources > 0 {
            out.push(plural(resources, "resource"));
        }
        out.join(", ")
    }

    /// What its tools cost a model that is shown all of them: about four bytes are a token.
    fn cost(&self) -> Option<String> {
        let tokens = self.bytes / 4;
        let shown =
            if tokens >= 1_000 { format!("{}.{}k", tokens / 1_000, tokens % 1_000 / 100) } else { tokens.to_string() };
        (tokens > 0).then(|| format!("≈ {shown} tokens"))
    }

    fn trouble(&self) -> Markup {
        html! {
            @if let Some(error) = &self.error { p.bad { (foreign(error)) } }
            @if let Some(warning) = &self.warning { p.wait { (foreign(warning)) } }
            @for (list, error, again) in &self.failed_lists {
                p.bad { "▲ " code { (foreign(list)) } " fails: " (foreign(error)) ", asked again in " (again) " s" }
            }
            @if let Some((logged_in, need_login)) = self.people {
                p { (plural(logged_in, "login")) " of people" @if need_login > 0 { ", " (need_login) " missing" } }
            }
            @if self.held > 0 { p { a href="/approvals" { (plural(self.held, "definition")) " held for approval" } } }
        }
    }

    fn buttons(&self, shell: &Shell) -> Markup {
        let path = format!("/servers/{}", encoded(&self.name));
        html! {
            @if self.is_ours && self.state == "disabled" { (shell.button(&format!("{path}/enable"), "Enable", &[])) }
            @if self.has_login && self.state == "needs login" { (shell.button(&format!("{path}/login"), "Log in", &[])) }
            @if self.is_ours && self.state != "disabled" {
                (shell.button(&format!("{path}/restart"), "Restart", &[]))
                (shell.button(&format!("{path}/disable"), "Disable", &[]))
            }
        }
    }
}

impl ServersScreen {
    /// The page: trouble first.
    pub fn page(&self, shell: &Shell) -> String {
        let filtered = !self.state.is_empty() || !self.query.is_empty();
        let path = match filtered {
            true => format!("/servers?state={}&q={}", encoded(&self.state), encoded(&self.query)),
            false => "/servers".to_owned(),
        };
        let content = html! {
            form.filters method="get" action="/servers" role="search" {
                input #search type="search" name="q" value=(self.query) placeholder="/ name" aria-label="Search servers";
                select name="state" aria-label="State" {
                    option value="" { "every state" }
                    @for known in STATES { option value=(known) selected[known == self.state] { (known) } }
                }
                button { "Filter" }
                @if filtered { a href="/servers" { "All" } }
                @if shell.form_token.is_some() { a href="/add" { "Add a server" } }
            }
            @if self.servers.is_empty() && filtered {
                div.empty { p { "No server fits." } }
            } @else if self.servers.is_empty() {
                div.empty {
                    p { "No server is configured. " a href="/add" { "Add one" } ", or:" }
                    pre { code { "tidings add NAME -- COMMAND\ntidings add NAME --url URL" } }
                }
            } @else {
                div.scroll { table.stack {
                    thead { tr { th scope="col" { "state" } th scope="col" { "server" } th scope="col" { "offers" } th scope="col" { "reached" } th scope="col" { "actions" } } }
                    tbody {
                        @for server in &self.servers {
                            tr.row tabindex="-1" data-href={ "/servers/" (encoded(&server.name)) } {
                                td.nowrap { (state(server)) }
                                td { a href={ "/servers/" (encoded(&server.name)) } { (foreign(&server.name)) } (server.trouble()) }
                                td { (server.offers()) @if let Some(cost) = server.cost() { br; span.muted { (cost) } } }
                                td { (server.transport) @if !server.revision.is_empty() { " · " (server.revision) }
                                    @if let Some(since) = server.since { br; span.muted { (shell.ago(since)) } }
                                    @if !server.calls.is_empty() { br; (spark(&server.calls)) } }
                                td.actions { (server.buttons(shell)) }
                            }
                        }
                    }
                } }
                (self.part.pager(&path, "Servers"))
                p.muted { "Tokens are an estimate: bytes of the tools' definitions ÷ 4." }
            }
        };
        shell.page(PagePlace::Servers, "Servers", &content)
    }
}

impl ServerScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let server = &self.server;
        let content = html! {
            p { (state(server)) @if let Some(since) = server.since { " " (shell.ago(since)) } " · " (server.source) }
            (server.trouble())
            p { (server.offers()) @if let Some(cost) = server.cost() { " · " (cost) " (estimated: bytes ÷ 4)" } }
            p.muted { (server.transport) @if !server.revision.is_empty() { " · revision " (server.revision) }
                " · connected " (plural(usize::try_from(server.connects).unwrap_or_default(), "time")) }
            @if !server.calls.is_empty() { p { "Its last calls took " (spark(&server.calls)) } }
            p { (server.buttons(shell)) }
            p { a href={ "/?server=" (encoded(&server.name)) } { "What it changed" } " · "
                a href={ "/calls?server=" (encoded(&server.name)) } { "Calls to it" } " · "
                a href={ "/follows?server=" (encoded(&server.name)) } { "What is followed" } }
            h2 { "Log, the newest first" }
            @if self.log.is_empty() { p.muted { "Nothing was logged of it lately." } }
            @else { pre.log tabindex="0" role="region" aria-label="Log" { code { @for line in self.log.iter().rev() { (foreign(line)) "\n" } } } }
            h2 { "Tools" }
            @if self.tools.is_empty() { p.muted { "None." } }
            ul.rows {
                @for (name, description) in &self.tools {
                    li.row tabindex="-1" data-href=(tool_path(&server.name, name)) { a href=(tool_path(&server.name, name)) { code { (foreign(name)) } } p { (foreign(description)) } }
                }
            }
        };
        shell.page(PagePlace::Servers, &server.name, &content)
    }
}
