//! Adding a server: from the catalogue, or by hand.

use maud::{Markup, html};

use crate::parts::{PagePlace, Shell, foreign};

/// A server that could be added.
#[derive(Clone, Debug)]
pub struct EntryView {
    /// What it is asked for by.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Who says so.
    pub source: String,
    /// Whether it is made by those who make what it gives access to.
    pub official: bool,
    /// Environment variables that it reads: name, what it is for, and whether it has to be given.
    pub variables: Vec<(String, String, bool)>,
    /// What has to be added to its arguments, if anything.
    pub arguments: Option<String>,
}

/// Adding a server.
#[derive(Clone, Debug)]
pub struct AddScreen {
    /// What was looked for.
    pub query: String,
    /// What fits, best first.
    pub entries: Vec<EntryView>,
    /// Why the last one could not be added.
    pub said: Option<String>,
}

impl AddScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            @if let Some(said) = &self.said { p.bad role="alert" { "▲ " (foreign(said)) } }
            form.filters method="get" action="/add" role="search" {
                input #search type="search" name="q" value=(self.query) placeholder="/ what should it do?" aria-label="Search the catalogue";
                button { "Search" }
                @if !self.query.is_empty() { a href="/add" { "All" } }
            }
            @if self.entries.is_empty() { div.empty { p { "Nothing in the catalogue fits. Add it by hand, below." } } }
            ol.rows { @for entry in &self.entries { (row(shell, entry)) } }
            @if let Some(token) = &shell.form_token {
                h2 { "By hand" }
                form.try method="post" action="/add" {
                    input type="hidden" name="token" value=(token);
                    p { label { "Name" br; input name="name" required pattern="[A-Za-z0-9_\\-]+"; } }
                    p { label { "URL, or a command with its arguments" br; input name="run" required placeholder="https://… or npx -y …"; } }
                    button { "Add" }
                }
            }
            p.muted { "Adding answers when the server is connected and every client that can see it will be told, or says why it can not." }
            p { a href="/servers" { "◂ Servers" } }
        };
        shell.page(PagePlace::Servers, "Add a server", &content)
    }
}

fn row(shell: &Shell, entry: &EntryView) -> Markup {
    html! {
        li.row tabindex="-1" {
            p.head { strong { (foreign(&entry.name)) } code.muted { (foreign(&entry.id)) } @if entry.official { span.muted { "official" } } span.muted { (foreign(&entry.source)) } }
            p { (foreign(&entry.description)) }
            @if let Some(token) = &shell.form_token {
                details { summary { "Add " (foreign(&entry.name)) }
                    form.try method="post" action="/add" {
                        input type="hidden" name="token" value=(token);
                        input type="hidden" name="entry" value=(entry.id);
                        p { label { "Name (may be left out)" br; input name="name" pattern="[A-Za-z0-9_\\-]*"; } }
                        @for (name, description, required) in &entry.variables {
                            p { label { code { (foreign(name)) } @if !required { " (may be left out)" } " " span.muted { (foreign(description)) } br;
                                input.secret autocomplete="off" spellcheck="false" name={ "env." (name) }; } }
                        }
                        @if let Some(arguments) = &entry.arguments {
                            p { label { "Arguments: " span.muted { (foreign(arguments)) } br; input name="args"; } }
                        }
                        button { "Add" }
                    }
                }
            }
        }
    }
}
