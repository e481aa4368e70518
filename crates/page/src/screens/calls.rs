//! The calls, from the audit log.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::parts::{PagePlace, Shell, difference, foreign};
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
    /// Set where the client called from a list in which the tool said something else.
    pub outdated: Option<OutdatedCall>,
}

/// A tool as a client knew it, and as it was when the client called it.
#[derive(Clone, Debug)]
pub struct OutdatedCall {
    /// When the client last asked for the list.
    pub listed: Timestamp,
    /// What the tool said then; `None` if it was not there.
    pub knew: Option<Value>,
    /// What it said when it was called.
    pub said: Option<Value>,
}

/// The calls.
#[derive(Clone, Debug)]
pub struct CallsScreen {
    /// The newest first.
    pub calls: Vec<CallRow>,
    /// Whether calls are recorded at all.
    pub recorded: bool,
    /// Which calls are wanted.
    pub filter: CallFilter,
    /// Where older ones begin.
    pub older: Option<u64>,
}

/// Which calls are wanted; what is empty fits always.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    /// Of this client or principal.
    pub client: String,
    /// To this server.
    pub server: String,
    /// Of this tool, prompt or resource.
    pub tool: String,
    /// That ended so.
    pub outcome: String,
}

const OUTCOMES: [&str; 4] = ["answered", "error", "cancelled", "abandoned"];

impl CallFilter {
    fn is_empty(&self) -> bool {
        [&self.client, &self.server, &self.tool, &self.outcome].iter().all(|text| text.is_empty())
    }

    fn query(&self) -> String {
        let all =
            [("client", &self.client), ("server", &self.server), ("tool", &self.tool), ("outcome", &self.outcome)];
        all.iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("&{name}={}", encoded(value)))
            .collect()
    }

    fn form(&self) -> Markup {
        html! {
            form.filters method="get" action="/calls" role="search" {
                input #search type="search" name="tool" value=(self.tool) placeholder="/ tool" aria-label="Tool";
                input name="client" value=(self.client) placeholder="client" aria-label="Client";
                input name="server" value=(self.server) placeholder="server" aria-label="Server";
                select name="outcome" aria-label="How it ended" {
                    option value="" { "every end" }
                    @for outcome in OUTCOMES { option value=(outcome) selected[outcome == self.outcome] { (outcome) } }
                }
                button { "Filter" }
                @if !self.is_empty() { a href="/calls" { "All" } }
            }
        }
    }
}

fn old_list(shell: &Shell, call: &OutdatedCall) -> Markup {
    html! {
        details.old { summary.wait { "⚠ called from an outdated list" }
            p.muted { "The client listed the tools " (shell.ago(call.listed)) "; the tool said something else since. What it knew │ what was in force:" }
            (difference(call.knew.as_ref(), call.said.as_ref(), false))
        }
    }
}

impl CallsScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            @if self.recorded { (self.filter.form()) }
            @if !self.recorded {
                div.empty { p { "Calls are not recorded: " code { "[audit] enabled = false" } "." } }
            } @else if self.calls.is_empty() && !self.filter.is_empty() {
                div.empty { p { "No call fits" @if self.older.is_some() { " among the newest 5,000 records" } "." } }
            } @else if self.calls.is_empty() {
                div.empty { p { "No call was recorded yet." }
                    p { "Connect a client: " a href="/connect" { "Connect" } ", or " code { "tidings call TOOL" } "." } }
            } @else {
                div.scroll { table.stack {
                    thead { tr { th { "time" } th { "client" } th.wide { "what" } th { "took" } th { "ended" } th { "arguments" } } }
                    tbody {
                        @for call in &self.calls {
                            tr.row tabindex="-1" {
                                td.nowrap { (shell.ago(call.time)) }
                                td { (foreign(&call.client)) }
                                td { code { (foreign(&call.name)) } " " span.muted { (foreign(&call.server)) }
                                    @if let Some(outdated) = &call.outdated { (old_list(shell, outdated)) } }
                                td.number { @match call.millis { Some(millis) => { (millis) " ms" }, None => "unknown" } }
                                td.nowrap { @if call.failed { span.bad { "▲ " (foreign(&call.outcome)) } } @else { (foreign(&call.outcome)) } }
                                td { @match &call.arguments {
                                    Some(text) => details { summary { "shown" } pre { code { (foreign(text)) } } },
                                    None => span.muted { @if let Some(bytes) = call.bytes { (bytes) " bytes, " } "not kept (" code { "[audit] arguments" } ")" },
                                } }
                            }
                        }
                    }
                } }
            }
            @if let Some(older) = self.older {
                nav.pager aria-label="Pages" { a href={ "/calls?before=" (older) (self.filter.query()) } rel="next" { "Older ▸" } }
            }
        };
        shell.page(PagePlace::Calls, "Calls", &content)
    }
}
