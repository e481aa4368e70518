//! The calls, from the audit log.

use jiff::Timestamp;
use maud::html;

use crate::parts::{PagePlace, Shell, foreign};
use crate::screens::feed::encoded;

/// One call.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// Its number in the audit log.
    pub seq: u64,
    /// When it came.
    pub time: Timestamp,
    /// Who made it: the principal, and what the client calls itself.
    pub client: String,
    /// The server.
    pub server: String,
    /// The tool, prompt or resource.
    pub name: String,
    /// How long it took, in milliseconds.
    pub millis: Option<u64>,
    /// How it ended.
    pub outcome: String,
    /// Whether that is trouble.
    pub failed: bool,
    /// The arguments, if they are kept.
    pub arguments: Option<String>,
    /// How large they were, in bytes.
    pub bytes: Option<u64>,
}

/// The calls.
#[derive(Clone, Debug)]
pub struct CallsScreen {
    /// The newest first.
    pub calls: Vec<CallRow>,
    /// Whether calls are recorded at all.
    pub recorded: bool,
    /// Only calls to this server.
    pub server: String,
    /// Where older ones begin.
    pub older: Option<u64>,
}

impl CallsScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let server = if self.server.is_empty() { String::new() } else { format!("&server={}", encoded(&self.server)) };
        let content = html! {
            @if !self.recorded {
                div.empty { p { "Calls are not recorded: " code { "[audit] enabled = false" } "." } }
            } @else if self.calls.is_empty() {
                div.empty { p { "No call was recorded yet" @if !self.server.is_empty() { " to " (foreign(&self.server)) } "." }
                    p { "Connect a client: " a href="/connect" { "Connect" } ", or " code { "tidings call TOOL" } "." } }
            } @else {
                @if !self.server.is_empty() { p { "To " strong { (foreign(&self.server)) } ". " a href="/calls" { "All" } } }
                div.scroll { table.stack {
                    thead { tr { th { "time" } th { "client" } th { "what" } th { "took" } th { "ended" } th { "arguments" } } }
                    tbody {
                        @for call in &self.calls {
                            tr.row tabindex="-1" {
                                td.nowrap { (shell.ago(call.time)) }
                                td { (foreign(&call.client)) }
                                td { code { (foreign(&call.name)) } " " span.muted { (foreign(&call.server)) } }
                                td.number { @match call.millis { Some(millis) => { (millis) " ms" }, None => "unknown" } }
                                td { @if call.failed { span.bad { "▲ " (foreign(&call.outcome)) } } @else { (foreign(&call.outcome)) } }
                                td { @match &call.arguments {
                                    Some(text) => details { summary { "shown" } pre { code { (foreign(text)) } } },
                                    None => span.muted { @if let Some(bytes) = call.bytes { (bytes) " bytes, " } "not kept" },
                                } }
                            }
                        }
                    }
                } }
                nav.pager aria-label="Pages" {
                    @if let Some(older) = self.older { a href={ "/calls?before=" (older) (server) } rel="next" { "Older ▸" } }
                }
            }
        };
        shell.page(PagePlace::Calls, "Calls", &content)
    }
}
