//! What became of the notices of a change: a line in the feed, a histogram and a list on its own page.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::parts::{Shell, foreign, plural};

/// How many clients are owed, were told, and are spared a notice of one change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeCounts {
    /// The number of the commit.
    pub commit: u64,
    /// Clients whose view it changed.
    pub owed: u64,
    /// Those of them that were told.
    pub told: u64,
    /// Those of them that left before.
    pub left: u64,
    /// Those of them that are still owed it.
    pub waiting: u64,
    /// Clients whose own view it did not change.
    pub spared: u64,
    /// Clients whose revision is told of nothing.
    pub silent: u64,
    /// Within how many milliseconds half of them were told.
    pub median: Option<u64>,
}

impl NoticeCounts {
    /// The line in the feed. Also sent to pages that are open, so that they say what a fresh one would.
    pub fn words(&self) -> String {
        if self.owed == 0 {
            return "nobody had to be told".to_owned();
        }
        let mut words = format!("told {} of {}", self.told, self.owed);
        // Of nobody who was told there is no half.
        if let Some(median) = self.median.filter(|_| self.told > 0) {
            words.push_str(&format!(" · half within {median} ms"));
        }
        if self.waiting > 0 {
            words.push_str(&format!(" · {} waiting", self.waiting));
        }
        if self.left > 0 {
            words.push_str(&format!(" · {} left before", self.left));
        }
        words
    }

    /// What a page that is open finds the line by.
    pub fn key(&self, kind: &str) -> String {
        // Resources and their templates are announced by one notice.
        let kind = if kind == "resource_templates" { "resources" } else { kind };
        format!("{}:{kind}", self.commit)
    }
}

/// One client that was told.
#[derive(Clone, Debug)]
pub struct ToldView {
    /// Its number.
    pub id: u64,
    /// Its name; `None` if it left since.
    pub name: Option<String>,
    /// When.
    pub time: Option<Timestamp>,
    /// How many further commits the same notice stands for.
    pub coalesced: u64,
}

/// Everything that is known of the notices of one change.
#[derive(Clone, Debug, Default)]
pub struct NoticesView {
    /// How many.
    pub counts: NoticeCounts,
    /// How many were told in less than 1, 2, 4 … ms, and later.
    pub within: Vec<u64>,
    /// Who, the latest first.
    pub told: Vec<ToldView>,
}

/// The line of one change.
pub(crate) fn line(counts: Option<&NoticeCounts>, kind: &str) -> Markup {
    html! { @if let Some(counts) = counts { span.told data-told=(counts.key(kind)) { (counts.words()) } } }
}

/// The whole of it.
pub(crate) fn section(shell: &Shell, notices: Option<&NoticesView>, kind: &str) -> Markup {
    html! {
        section.item {
            h2 { "Who was told" }
            @match notices {
                None => p.muted { "Not counted: nobody sees this change yet, or it happened before this gateway was started." },
                Some(notices) => {
                    p { (line(Some(&notices.counts), kind)) }
                    @if notices.counts.spared > 0 { p.muted { (plural(count(notices.counts.spared), "client")) " spared: what they see did not change." } }
                    @if notices.counts.silent > 0 { p.muted { (plural(count(notices.counts.silent), "client")) " silent: the configuration says that their revision is told of nothing." } }
                    (histogram(&notices.within))
                    @if !notices.told.is_empty() { (clients(shell, notices)) }
                }
            }
        }
    }
}

fn count(of: u64) -> usize {
    usize::try_from(of).unwrap_or(usize::MAX)
}

fn histogram(within: &[u64]) -> Markup {
    let most = within.iter().copied().max().unwrap_or_default();
    let last = within.iter().rposition(|count| *count > 0).unwrap_or_default();
    html! {
        @if most > 0 {
            table.histogram {
                caption { "From the commit to the notice" }
                thead { tr { th scope="col" { "less than" } th scope="col" { "clients" } } }
                tbody {
                    @for (step, count) in within.iter().enumerate().take(last + 1) {
                        tr {
                            td.number { @if step + 1 == within.len() { "more" } @else { (1u64 << step) " ms" } }
                            td { meter min="0" max=(most) value=(count) { (count) } " " (count) }
                        }
                    }
                }
            }
        }
    }
}

fn clients(shell: &Shell, notices: &NoticesView) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Clients that were told" { table {
            thead { tr { th scope="col" { "client" } th scope="col" { "told" } th scope="col" { "stands for" } } }
            tbody {
                @for told in &notices.told {
                    tr {
                        td {
                            @match &told.name {
                                Some(name) => a href={ "/clients/" (told.id) } { (foreign(name)) " " (told.id) },
                                None => span.muted { "client " (told.id) ", left since" },
                            }
                        }
                        td { @if let Some(time) = told.time { (shell.ago(time)) } }
                        td { @if told.coalesced > 0 { (told.coalesced + 1) " commits" } @else { "this commit" } }
                    }
                }
            }
        } }
        @if notices.counts.told > notices.told.len() as u64 { p.muted { "… and " (notices.counts.told - notices.told.len() as u64) " more" } }
    }
}
