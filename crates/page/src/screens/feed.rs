//! The feed, and one change as a whole.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use tidings_diff::Severity;

use crate::notices::{self, NoticeCounts, NoticesView};
use crate::parts::{PagePlace, Shell, difference, foreign, plain, plural, severity};

/// How many names and items of one change are shown in the feed.
const NAMES: usize = 12;
const ITEMS: usize = 6;
/// Among so many servers one is chosen from a list; among more its name is typed.
pub const SERVER_CHOICES: usize = 100;
/// The lists, as filters know them.
const KINDS: [&str; 5] = ["tools", "prompts", "resources", "resource_templates", "release"];

/// One change of one list of one server.
#[derive(Clone, Debug)]
pub struct ChangeView {
    /// Its number.
    pub seq: u64,
    /// When it could be read.
    pub time: Timestamp,
    /// Whose list it is.
    pub server: String,
    /// Which list.
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// Why: the item, and the reason.
    pub remarks: Vec<(String, String)>,
    /// What came.
    pub added: Vec<String>,
    /// What went.
    pub removed: Vec<String>,
    /// What says something else.
    pub changed: Vec<ChangedItemView>,
    /// Whether nobody looked when it happened.
    pub while_down: bool,
    /// Whether it waits for approval.
    pub held: bool,
    /// How many changes before it could not be recorded.
    pub lost: u64,
    /// What became of its notices; `None` where that is not counted.
    pub notices: Option<NoticeCounts>,
}

/// One item that says something else.
#[derive(Clone, Debug)]
pub struct ChangedItemView {
    /// What the server calls it.
    pub name: String,
    /// The members that differ.
    pub fields: Vec<ChangedFieldView>,
}

/// One member, before and after.
#[derive(Clone, Debug)]
pub struct ChangedFieldView {
    /// Its name.
    pub field: String,
    /// Its value before.
    pub before: Option<Value>,
    /// Its value of now.
    pub after: Option<Value>,
    /// Whether the values were too large to be kept.
    pub truncated: bool,
}

/// What of the feed is shown; all of it is in the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedFilter {
    /// Changes of this server only.
    pub server: String,
    /// Changes of this list only.
    pub kind: String,
    /// Changes that matter this much.
    pub severity: Option<Severity>,
    /// Changes with this text in them.
    pub text: String,
}

/// The feed.
#[derive(Clone, Debug)]
pub struct FeedScreen {
    /// The newest first.
    pub changes: Vec<ChangeView>,
    /// What was asked for.
    pub filter: FeedFilter,
    /// The servers that there are, to choose from; `None` where there are more than [`SERVER_CHOICES`].
    pub servers: Option<Vec<String>>,
    /// Where older ones begin.
    pub older: Option<u64>,
    /// Whether this is the newest page.
    pub newest: bool,
    /// The command that makes the demo's change.
    pub demo: Option<String>,
}

impl FeedFilter {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn query(&self, before: Option<u64>) -> String {
        let mut out = String::from("/?");
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                out.push_str(&format!("{name}={}&", encoded(value)));
            }
        };
        put("server", &self.server);
        put("kind", &self.kind);
        put("severity", self.severity.map_or("", Severity::as_str));
        put("q", &self.text);
        put("before", &before.map(|seq| seq.to_string()).unwrap_or_default());
        out.truncate(out.trim_end_matches(['&', '?']).len());
        out
    }
}

/// A value in an address.
pub(crate) fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

impl FeedScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            (self.filters())
            // Counts what comes; nothing moves until somebody asks.
            a #pill href=(self.filter.query(None)) hidden {}
            @if self.changes.is_empty() { (self.nothing()) }
            ol.rows #feed data-server=(self.filter.server) data-kind=(self.filter.kind)
                data-severity=(self.filter.severity.map_or("", Severity::as_str)) data-text=(self.filter.text) {
                @for change in &self.changes { (row(shell, change)) }
            }
            nav.pager aria-label="Pages" {
                @if !self.newest { a href=(self.filter.query(None)) { "◂ Newest" } }
                @if let Some(older) = self.older { a href=(self.filter.query(Some(older))) rel="next" { "Older ▸" } }
            }
        };
        shell.page(PagePlace::Feed, "What changed", &content)
    }

    fn filters(&self) -> Markup {
        html! {
            form.filters method="get" action="/" role="search" {
                input #search type="search" name="q" value=(self.filter.text) placeholder="/ search" aria-label="Text in a change";
                @if let Some(servers) = &self.servers {
                    select name="server" aria-label="Server" {
                        option value="" { "every server" }
                        // One that is gone still has changes.
                        @if !self.filter.server.is_empty() && !servers.contains(&self.filter.server) {
                            option value=(self.filter.server) selected { (plain(&self.filter.server)) }
                        }
                        @for server in servers {
                            option value=(server) selected[*server == self.filter.server] { (plain(server)) }
                        }
                    }
                } @else {
                    // Nobody finds one of a thousand in a list, which would be most of the page.
                    input name="server" value=(self.filter.server) placeholder="server" aria-label="Server";
                }
                select name="kind" aria-label="List" {
                    option value="" { "every list" }
                    @for kind in KINDS { option value=(kind) selected[kind == self.filter.kind] { (kind.replace('_', " ")) } }
                }
                select name="severity" aria-label="Severity" {
                    option value="" { "every severity" }
                    @for severity in Severity::ALL {
                        option value=(severity.as_str()) selected[Some(severity) == self.filter.severity] {
                            (severity.shape()) " " (severity.as_str())
                        }
                    }
                }
                button { "Filter" }
                @if !self.filter.is_empty() { a href="/" { "All" } }
            }
        }
    }

    fn nothing(&self) -> Markup {
        html! {
            div.empty {
                @if !self.filter.is_empty() {
                    p { "No change fits." @if self.older.is_some() { " Older ones were not looked at yet." } }
                } @else {
                    p { "Nothing changed yet. What servers add, take away or change appears here, with what it said before." }
                    @if let Some(demo) = &self.demo {
                        p { "Try it, in another terminal:" }
                        pre { code { (demo) } }
                    } @else {
                        p { "Servers that are there from the start are no change: " a href="/servers" { "Servers" } "." }
                    }
                }
            }
        }
    }
}

fn row(shell: &Shell, change: &ChangeView) -> Markup {
    let is_loud = change.severity >= Severity::Breaking;
    html! {
        li.row id={ "c" (change.seq) } tabindex="-1" data-href={ "/changes/" (change.seq) } {
            (head(shell, change, true))
            (remarks(change, 3))
            (names(change, NAMES))
            @for item in change.changed.iter().take(ITEMS) {
                details open[is_loud] {
                    summary { (item_summary(item)) }
                    (fields(item, false))
                }
            }
            @if change.changed.len() > ITEMS {
                p { a href={ "/changes/" (change.seq) } { "… and " (change.changed.len() - ITEMS) " more" } }
            }
        }
    }
}

fn head(shell: &Shell, change: &ChangeView, link: bool) -> Markup {
    html! {
        p.head {
            @if link { a.seq href={ "/changes/" (change.seq) } { "#" (change.seq) } " " }
            strong { a.server href={ "/servers/" (encoded(&change.server)) } { (foreign(&change.server)) } }
            " · " (change.kind.replace('_', " ")) " "
            (severity(change.severity)) " "
            span.muted { (shell.ago(change.time)) }
            @if change.while_down { " " span.tag { "while the gateway was down" } }
            @if change.held { " " a.tag href="/approvals" { "held for approval" } }
            @if link { (notices::line(change.notices.as_ref(), &change.kind)) }
        }
        @if change.lost > 0 { p.bad { "▲ " (plural(usize::try_from(change.lost).unwrap_or(usize::MAX), "earlier change")) " could not be recorded" } }
    }
}

fn remarks(change: &ChangeView, most: usize) -> Markup {
    html! {
        @for (item, reason) in change.remarks.iter().take(most) {
            p.remark { (change.severity.shape()) " " code { (foreign(item)) } " " (foreign(reason)) }
        }
    }
}

fn names(change: &ChangeView, most: usize) -> Markup {
    html! {
        @if !change.added.is_empty() || !change.removed.is_empty() {
            ul.names {
                @for name in change.added.iter().take(most) { li { ins { "+ " code { (foreign(name)) } } } }
                @if change.added.len() > most { li.muted { "+ " (change.added.len() - most) " more" } }
                @for name in change.removed.iter().take(most) { li { del { "− " code { (foreign(name)) } } } }
                @if change.removed.len() > most { li.muted { "− " (change.removed.len() - most) " more" } }
            }
        }
    }
}

fn item_summary(item: &ChangedItemView) -> Markup {
    html! {
        "~ " code { (foreign(&item.name)) }
        @if item.fields.is_empty() { span.muted { " what changed is not known" } }
        @for (at, field) in item.fields.iter().enumerate() {
            span.muted { @if at > 0 { "," } " " (foreign(&field.field)) }
        }
    }
}

fn fields(item: &ChangedItemView, whole: bool) -> Markup {
    html! {
        @for field in &item.fields {
            div.field {
                @if item.fields.len() > 1 { p.label { (foreign(&field.field)) } }
                @if field.truncated { p.muted { "too large to be kept" } }
                @else { (difference(field.before.as_ref(), field.after.as_ref(), whole)) }
            }
        }
    }
}

/// One change as a whole.
#[derive(Clone, Debug)]
pub struct ChangeScreen {
    /// The change.
    pub change: ChangeView,
    /// What became of its notices; `None` where that is not counted.
    pub notices: Option<NoticesView>,
}

impl ChangeScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let change = &self.change;
        let content = html! {
            (head(shell, change, false))
            p.muted { (change.time.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()) }
            (remarks(change, usize::MAX))
            (names(change, usize::MAX))
            @for item in &change.changed {
                section.item {
                    h2 { "~ " code { (foreign(&item.name)) } }
                    @if item.fields.is_empty() { p.muted { "It changed while no gateway looked: what it said before is not known." } }
                    (fields(item, true))
                    @for field in item.fields.iter().filter(|field| !field.truncated) {
                        details {
                            summary { "the whole of " code { (foreign(&field.field)) } ", before and after" }
                            div.sides {
                                div { p.label { "before" } (side(field.before.as_ref())) }
                                div { p.label { "after" } (side(field.after.as_ref())) }
                            }
                        }
                    }
                }
            }
            (notices::section(shell, self.notices.as_ref(), &change.kind))
            p { a href="/" { "◂ Feed" } }
        };
        shell.page(PagePlace::Feed, &format!("Change #{}", change.seq), &content)
    }
}

fn side(value: Option<&Value>) -> Markup {
    html! {
        pre {
            code {
                @match value {
                    None => span.muted { "was not there" },
                    Some(Value::String(text)) => (foreign(text)),
                    Some(other) => (foreign(&serde_json::to_string_pretty(other).unwrap_or_default())),
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::notices::ToldView;

    pub(crate) fn shell() -> Shell {
        Shell {
            now: "2026-11-16T12:00:00Z".parse().expect("a time"),
            form_token: None,
            failing: 1,
            waiting: 2,
            last_change: 9,
            refresh: false,
        }
    }

    fn change(text: &str) -> ChangeView {
        ChangeView {
            seq: 7,
            time: "2026-11-16T11:58:00Z".parse().expect("a time"),
            server: text.to_owned(),
            kind: "tools".to_owned(),
            severity: Severity::Suspect,
            remarks: vec![(text.to_owned(), text.to_owned())],
            added: vec![text.to_owned()],
            removed: vec![text.to_owned()],
            changed: vec![ChangedItemView {
                name: text.to_owned(),
                fields: vec![
                    ChangedFieldView {
                        field: text.to_owned(),
                        before: Some(json!("Search the code.")),
                        after: Some(json!(text)),
                        truncated: false,
                    },
                    ChangedFieldView {
                        field: "inputSchema".to_owned(),
                        before: Some(json!({"a": text})),
                        after: Some(json!({ text: [text] })),
                        truncated: false,
                    },
                ],
            }],
            while_down: true,
            held: true,
            lost: 2,
            notices: Some(NoticeCounts {
                commit: 5,
                owed: 3,
                told: 2,
                waiting: 1,
                median: Some(64),
                ..NoticeCounts::default()
            }),
        }
    }

    fn notices(text: &str) -> NoticesView {
        let told = ToldView { id: 3, name: Some(text.to_owned()), time: None, coalesced: 1 };
        NoticesView { counts: NoticeCounts::default(), within: vec![1, 4], told: vec![told] }
    }

    #[test]
    fn hostile_text_is_text_on_every_place_of_both_screens() {
        for hostile in [
            "<script>alert(1)</script>",
            "\"><img src=x onerror=alert(1)>",
            "\" onmouseover=\"x",
            "\u{202e}\u{200b}\u{1b}[2J",
            "javascript:alert(1)",
            "</details></li>",
            "{{7*7}}",
            "\0",
        ] {
            let filter = FeedFilter { server: hostile.to_owned(), text: hostile.to_owned(), ..FeedFilter::default() };
            let screen = FeedScreen {
                changes: vec![change(hostile)],
                filter,
                servers: Some(vec![hostile.to_owned()]),
                older: Some(3),
                newest: false,
                demo: Some(hostile.to_owned()),
            };
            for html in [
                screen.page(&shell()),
                ChangeScreen { change: change(hostile), notices: Some(notices(hostile)) }.page(&shell()),
            ] {
                assert!(
                    !html.contains("<script>") && !html.contains("<img") && !html.contains("\" onmouseover=\""),
                    "{hostile}: {html}"
                );
                assert!(!html.contains("href=\"javascript:"), "{hostile}: {html}");
                assert_eq!(html.matches("<details").count(), html.matches("</details>").count(), "{hostile}");
            }
            let feed = screen.page(&shell());
            let shown = &feed[feed.find("id=\"feed\"").expect("the feed")..];
            let body = &shown[shown.find('>').expect("an end")..];
            assert!(!body.contains(['\u{202e}', '\u{200b}', '\u{1b}', '\0']), "{hostile}: {body}");
        }
    }

    #[test]
    fn the_address_holds_the_filter() {
        let filter = FeedFilter {
            server: "a b".into(),
            kind: "tools".into(),
            severity: Some(Severity::Breaking),
            text: "x&y".into(),
        };
        assert_eq!(filter.query(Some(5)), "/?server=a%20b&kind=tools&severity=breaking&q=x%26y&before=5");
        assert_eq!(FeedFilter::default().query(None), "/");
    }

    #[test]
    fn among_many_servers_the_name_of_one_is_typed() {
        let filters = |count: Option<usize>| {
            let servers = count.map(|count| (0..count).map(|n| format!("s{n}")).collect());
            let (filter, changes) = (FeedFilter { server: "s7".to_owned(), ..FeedFilter::default() }, Vec::new());
            FeedScreen { changes, filter, servers, older: None, newest: true, demo: None }.page(&shell())
        };
        assert!(filters(Some(SERVER_CHOICES)).contains("<option value=\"s7\" selected>"));
        assert!(filters(Some(3)).contains("<option value=\"s7\" selected>"), "it is gone, and the filter says so");
        let many = filters(None);
        assert!(many.contains("<input name=\"server\" value=\"s7\"") && !many.contains(">s8<"), "{many}");
    }

    #[test]
    fn an_empty_feed_teaches_and_a_page_of_fifty_is_small() {
        let mut screen = FeedScreen {
            changes: vec![],
            filter: FeedFilter::default(),
            servers: Some(vec![]),
            older: None,
            newest: true,
            demo: Some("cp a b".into()),
        };
        assert!(screen.page(&shell()).contains("cp a b"));
        let words = "Searches the code of a repository for words and gives the lines in which they stand. ".repeat(20);
        let mut one = change("search");
        one.changed[0].fields[0] = ChangedFieldView {
            field: "description".into(),
            before: Some(json!(words)),
            after: Some(json!(format!("{words}More."))),
            truncated: false,
        };
        screen.changes = (0..50).map(|seq| ChangeView { seq, ..one.clone() }).collect();
        let size = screen.page(&shell()).len();
        assert!(size < 100 << 10, "{size}");
    }
}
