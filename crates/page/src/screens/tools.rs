//! The tools, as clients find them.

use jiff::Timestamp;
use maud::html;

use crate::parts::{PagePart, PagePlace, Shell, foreign, plain, plural};
use crate::screens::feed::encoded;
use crate::screens::tool::tool_path;

/// One tool.
#[derive(Clone, Debug)]
pub struct ToolView {
    /// The name that clients use.
    pub name: String,
    /// Whose it is.
    pub server: String,
    /// What it says of itself.
    pub description: String,
    /// Its arguments, as one line: names, those that must be given first.
    pub arguments: Vec<(String, bool)>,
    /// Its whole definition.
    pub definition: String,
    /// What its server calls it.
    pub local: String,
}

/// The tools that fit, best first; or all by name.
#[derive(Clone, Debug)]
pub struct ToolsScreen {
    /// What was searched for.
    pub query: String,
    /// As many as are shown.
    pub tools: Vec<ToolView>,
    /// Which part of all they are.
    pub part: PagePart,
    /// The client through whose eyes they are seen.
    pub seen_by: Option<u64>,
    /// The clients that there are: number and name.
    pub clients: Vec<(u64, String)>,
    /// The time that is looked at; now if there is none.
    pub at: Option<Timestamp>,
}

impl ToolsScreen {
    fn path(&self) -> String {
        let at = self.at.map(|at| format!("&at={}", encoded(&at.to_string()))).unwrap_or_default();
        let seen_by = self.seen_by.map(|id| format!("&as={id}")).unwrap_or_default();
        format!("/tools?q={}{seen_by}{at}", encoded(&self.query))
    }

    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            form.filters method="get" action="/tools" role="search" {
                input #search type="search" name="q" value=(self.query) placeholder="/ what should it do?" aria-label="Search tools";
                select name="as" aria-label="As a client sees them" {
                    option value="" { "as an admin" }
                    @for (id, name) in &self.clients { option value=(id) selected[self.seen_by == Some(*id)] { "as " (plain(name)) " " (id) } }
                }
                input type="datetime-local" name="at" value=[self.at.map(|at| at.strftime("%Y-%m-%dT%H:%M").to_string())] aria-label="At a time, UTC";
                button { "Search" }
                @if !self.query.is_empty() || self.seen_by.is_some() || self.at.is_some() { a href="/tools" { "All" } }
            }
            @if let Some(at) = self.at { p { "The tools that there were at " (at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()) ", by the names that their servers gave them. Other filters do not apply." } }
            @if let Some(client) = self.seen_by { p { "As " a href={ "/clients/" (client) } { "client " (client) } " sees them." } }
            p.muted {
                @if self.at.is_some() { (plural(self.part.total, "tool")) "." }
                @else if self.query.is_empty() { (plural(self.part.total, "tool")) " behind the gateway." }
                @else { "The ranking that models get from " code { "retrieve_tools" } "." }
            }
            @if self.tools.is_empty() { div.empty { p { "No tool fits." } } }
            ol.rows {
                @for tool in &self.tools {
                    li.row tabindex="-1" data-href=(tool_path(&tool.server, &tool.local)) {
                        p.head { a href=(tool_path(&tool.server, &tool.local)) { code { (foreign(&tool.name)) } } a.muted href={ "/servers/" (encoded(&tool.server)) } { (foreign(&tool.server)) }
                            a.muted href={ "/?server=" (encoded(&tool.server)) "&kind=tools&q=" (encoded(&tool.local)) } { "its changes" } }
                        p { (foreign(&tool.description)) }
                        @if !tool.arguments.is_empty() {
                            p.muted { @for (at, (name, required)) in tool.arguments.iter().enumerate() {
                                @if at > 0 { ", " } code { (foreign(name)) } @if !required { "?" } } }
                        }
                        details { summary { "definition" } pre { code { (foreign(&tool.definition)) } } }
                    }
                }
            }
            @if self.query.is_empty() || self.at.is_some() { (self.part.pager(&self.path(), "Tools")) }
        };
        shell.page(PagePlace::Tools, "Tools", &content)
    }
}
