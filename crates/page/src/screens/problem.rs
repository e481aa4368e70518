//! When something can not be shown or done.

use maud::html;

use crate::parts::{PagePlace, Shell, foreign};

/// Leads to where somebody logs in to a server; the address is the gateway's own.
pub fn log_in(shell: &Shell, server: &str, url: &str) -> String {
    let content = html! {
        p { "The gateway asks the provider of " strong { (foreign(server)) } " for access. This leads there, and back to the gateway:" }
        p { a href=(url) { "Log in to " (foreign(server)) } }
        p.muted { "The server connects by itself when that is done." }
        p { a href="/servers" { "◂ Servers" } }
    };
    shell.page(PagePlace::Servers, "Log in", &content)
}

/// Says what went wrong, and where to go from there.
pub fn problem(shell: &Shell, title: &str, detail: &str, back: &str) -> String {
    let content = html! {
        p { (foreign(detail)) }
        p { a href=(back) { "Back" } }
    };
    shell.page(PagePlace::Nowhere, title, &content)
}
