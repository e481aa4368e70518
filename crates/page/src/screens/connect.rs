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
    /// The clients that are connected, by what they call themselves.
    pub connected: Vec<String>,
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
            @if self.connected.is_empty() { p.wait { "◔ Waiting for the first one. Load this page again when it was started." } }
            @else { p { (plural(self.connected.len(), "client")) ": " a href="/clients" { "Clients" } }
                ul { @for name in self.connected.iter().take(20) { li { (foreign(name)) } } } }
        };
        shell.page(PagePlace::Connect, "Connect a client", &content)
    }
}
