//! Definitions that wait for somebody to decide.

use jiff::Timestamp;
use maud::html;
use serde_json::Value;

use crate::parts::{PagePlace, Shell, difference, foreign, plural};

/// One definition that is held.
#[derive(Clone, Debug)]
pub struct HeldDefinition {
    /// Names the item.
    pub id: String,
    /// The hash of the definition that is shown: a decision is about exactly that one.
    pub digest: String,
    /// The server.
    pub server: String,
    /// Which list.
    pub kind: String,
    /// What the server calls it.
    pub name: String,
    /// Since when it is held.
    pub since: Option<Timestamp>,
    /// Whether somebody rejected it.
    pub rejected: bool,
    /// What is suspect: the reason, and whether it is more than a notice.
    pub findings: Vec<(String, bool)>,
    /// What was approved before, if that is known.
    pub approved: Option<Value>,
    /// Whether something was approved before.
    pub had_approved: bool,
    /// What waits.
    pub definition: Value,
}

/// Everything that is held.
#[derive(Clone, Debug)]
pub struct ApprovalsScreen {
    /// In the order of the servers.
    pub held: Vec<HeldDefinition>,
    /// What became of a decision, to be said on top.
    pub said: Option<String>,
}

impl ApprovalsScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            @if let Some(said) = &self.said { p role="status" { strong { (foreign(said)) } } }
            @if self.held.is_empty() {
                div.empty {
                    p { "Nothing waits for approval." }
                    p { "Of servers with " code { "approve = \"changed\"" } " nobody is shown tools and prompts that came or changed before somebody has looked at them; with " code { "\"manual\"" } " none at all." }
                }
            }
            ul.rows {
                @for held in &self.held {
                    li.row tabindex="-1" {
                        p.head { code { (foreign(&held.server)) "/" (foreign(&held.name)) } span.muted { (held.kind.replace('_', " ")) }
                            @if held.rejected { span.off { "○ rejected" } } @else { span.wait { "◔ withheld" } }
                            @if let Some(since) = held.since { span.muted { (shell.ago(since)) } } }
                        @for (reason, is_loud) in &held.findings {
                            p.remark { @if *is_loud { span.suspect { "◆ " (foreign(reason)) } } @else { "● " (foreign(reason)) } }
                        }
                        @match (&held.approved, held.had_approved) {
                            (Some(before), _) => {
                                p.muted { "against what was approved:" }
                                (difference(Some(before), Some(&held.definition), true))
                            },
                            (None, true) => p.muted { "The definition that was approved is not known here, only its hash." },
                            (None, false) => p { "New: " (foreign(held.definition["description"].as_str().unwrap_or("no description"))) },
                        }
                        details { summary { "the whole definition" } pre { code { (foreign(&serde_json::to_string_pretty(&held.definition).unwrap_or_default())) } } }
                        p {
                            (shell.button("/approvals", "Approve", &[("id", &held.id), ("digest", &held.digest), ("decision", "approve")]))
                            @if !held.rejected { (shell.button("/approvals", "Reject", &[("id", &held.id), ("digest", &held.digest), ("decision", "reject")])) }
                        }
                    }
                }
            }
            @if self.held.len() > 1 { p.muted { (plural(self.held.len(), "definition")) " in all. Several at once: " code { "tidings approve SERVER" } "." } }
        };
        shell.page(PagePlace::Approvals, "Approvals", &content)
    }
}
