//! What is shown to whoever is not let in.

use maud::{DOCTYPE, html};

use crate::parts::asset;

/// Why the page is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorReason {
    /// Nobody knows who asks. A browser that comes from elsewhere keeps its cookie back once, so it is asked to come again.
    Stranger {
        /// Whether it was asked already.
        again: bool,
    },
    /// The link was used, or is too old.
    Spent,
    /// The gateway can be reached from other machines.
    Elsewhere,
}

/// The door. It tells nothing about the gateway. `path` is where whoever comes again wants to go.
pub fn door(reason: DoorReason, path: &str) -> String {
    let again = matches!(reason, DoorReason::Stranger { again: false });
    let target = format!("0; url={path}{}again=1", if path.contains('?') { "&" } else { "?" });
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                @if again { meta http-equiv="refresh" content=(target); }
                title { "Tidings" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(asset("page.css"));
            }
            body.door {
                main {
                    h1 { "Tidings is running" }
                    @match reason {
                        DoorReason::Elsewhere => {
                            p { "The page is only for the machine that the gateway runs on, and this gateway can be reached from others." }
                            p { "What it would show: " code { "tidings changes --follow" } ", " code { "tidings servers" } "." }
                        }
                        DoorReason::Spent => p { "This link was used or is older than ten minutes." },
                        DoorReason::Stranger { .. } => p { "This browser has not been let in yet." },
                    }
                    @if reason != DoorReason::Elsewhere {
                        p { "On the machine that it runs on, as the user that it runs as:" }
                        pre { code { "tidings open" } }
                        p.muted { "It opens the page with a link that works once. The MCP endpoint is " code { "/mcp" } "." }
                    }
                }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_asked_to_come_again_once() {
        let first = door(DoorReason::Stranger { again: false }, "/changes/7?x=1");
        assert!(first.contains(r#"content="0; url=/changes/7?x=1&amp;again=1""#), "{first}");
        assert!(!door(DoorReason::Stranger { again: true }, "/").contains("refresh"));
        assert!(door(DoorReason::Spent, "/").contains("tidings open"));
        assert!(!door(DoorReason::Elsewhere, "/").contains("tidings open"));
    }
}
