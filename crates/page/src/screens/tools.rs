//! The tools, as clients find them.

use maud::html;

use crate::parts::{PagePlace, Shell, foreign, plural};
use crate::screens::feed::encoded;

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
    /// How many there are in all.
    pub total: usize,
}

impl ToolsScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            form.filters method="get" action="/tools" role="search" {
                input #search type="search" name="q" value=(self.query) placeholder="/ what should it do?" aria-label="Search tools";
                button { "Search" }
                @if !self.query.is_empty() { a href="/tools" { "All" } }
            }
            p.muted {
                @if self.query.is_empty() { (plural(self.total, "tool")) " behind the gateway." }
                @else { "The ranking that models get from " code { "retrieve_tools" } "." }
                @if self.tools.len() < self.total { " The first " (self.tools.len()) " are shown: search for the others." }
            }
            @if self.tools.is_empty() { div.empty { p { "No tool fits." } } }
            ol.rows {
                @for tool in &self.tools {
                    li.row tabindex="-1" {
                        p.head { code { (foreign(&tool.name)) } a.muted href={ "/servers/" (encoded(&tool.server)) } { (foreign(&tool.server)) }
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
        };
        shell.page(PagePlace::Tools, "Tools", &content)
    }
}
