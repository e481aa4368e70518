//! How to connect a client.

use maud::html;

use crate::parts::{PagePlace, Shell, foreign, plural};

/// One command per client.
#[derive(Clone, Debug)]
pub struct ConnectScreen {
    /// What is connected: a client and what to type or write.
    pub commands: Vec<(String, String)>,
    /// Whether a token has to be sent.
    pub has_tokens: bool,
    /// Some of the clients that are connected, by what they call themselves.
    pub connected: Vec<String>,
    /// How many there are.
    pub total: usize,
}

impl ConnectScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            @for (client, command) in &self.commands {
                h2 { (client) }
                pre { code { (command) } }
                button type="button" hidden data-copy=(command) { "Copy" }
            }
            @if self.has_tokens { p { "TOKEN is the secret of an entry in " code { "[auth] tokens" } "; this makes one more: " code { "tidings token NAME" } } }
            h2 { "Connected" }
            div #clients data-total=(self.total) {
                @if self.connected.is_empty() {
                    p.wait { "◔ Waiting for the first one." noscript { " Load this page again when it was started." } }
                } @else {
                    p { (plural(self.total, "client")) ": " a href="/clients" { "Clients" } }
                    ul {
                        @for name in &self.connected { li { (foreign(name)) } }
                        @if self.total > self.connected.len() { li.muted { "+ " (self.total - self.connected.len()) " more" } }
                    }
                }
            }
            a #pill href="/connect" hidden {}
        };
        shell.page(PagePlace::Connect, "Connect a client", &content)
    }
}
