//! What several screens share: the frame around them, text of others, times, severities and differences.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use serde_json::Value;
use tidings_diff::{Severity, VisibleSpan, WordSpan};

/// How much of one text of others is shown before "all".
const LONGEST: usize = 2_000;
/// How much of a title.
const TITLE: usize = 100;
/// How much of an unchanged stretch is shown at each end.
const AROUND: usize = 80;

/// Where a page stands in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the screens")]
pub enum PagePlace {
    Feed,
    Clients,
    Follows,
    Servers,
    Tools,
    Approvals,
    Calls,
    Connect,
    Nowhere,
}

const PLACES: [(PagePlace, &str, &str, &str); 8] = [
    (PagePlace::Feed, "/", "Feed", "f"),
    (PagePlace::Clients, "/clients", "Clients", "c"),
    (PagePlace::Follows, "/follows", "Follows", "o"),
    (PagePlace::Servers, "/servers", "Servers", "s"),
    (PagePlace::Tools, "/tools", "Tools", "t"),
    (PagePlace::Approvals, "/approvals", "Approvals", "a"),
    (PagePlace::Calls, "/calls", "Calls", "l"),
    (PagePlace::Connect, "/connect", "Connect", "n"),
];

/// What the frame around every screen needs to know.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The time at which the page is made.
    pub now: Timestamp,
    /// What a form carries to prove that it is ours; `None` for those who may only look.
    pub form_token: Option<String>,
    /// Servers that are in trouble.
    pub failing: usize,
    /// Definitions that wait for somebody.
    pub waiting: usize,
    /// The newest change that there is.
    pub last_change: u64,
    /// Whether the page changes by itself, so that it is loaded again where no script does that.
    pub refresh: bool,
}

impl Shell {
    /// A whole page.
    pub(crate) fn page(&self, place: PagePlace, title: &str, content: &Markup) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (plain(title)) " · Tidings" }
                    @if self.refresh { noscript { meta http-equiv="refresh" content="1"; } }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href=(asset("page.css"));
                    script type="module" src=(asset("page.js")) {}
                }
                body data-last=(self.last_change) {
                    a.skip href="#main" { "To the content" }
                    header {
                        a.brand href="/" { "Tidings" }
                        nav aria-label="Screens" {
                            @for (at, path, name, key) in PLACES {
                                a href=(path) data-go=(key) aria-current=[(at == place).then_some("page")] {
                                    (name)
                                    // The places are there from the beginning, for the script.
                                    @if at == PagePlace::Servers { span.count.bad #failing { @if self.failing > 0 { " ▲" (few(self.failing)) } } }
                                    @if at == PagePlace::Approvals { span.count #waiting { @if self.waiting > 0 { " " (few(self.waiting)) } } }
                                }
                            }
                        }
                        // Filled by the script; without one nothing is live, and nothing says so.
                        span #live role="status" {}
                        (self.button("/logout", "Leave", &[]))
                    }
                    main #main { h1 { (foreign(title)) } (content) }
                    dialog #keys aria-labelledby="keys-title" {
                        h2 #keys-title { "Keys" }
                        dl {
                            dt { kbd { "j" } " " kbd { "k" } } dd { "next and previous row" }
                            dt { kbd { "Enter" } } dd { "open the row" }
                            dt { kbd { "o" } } dd { "unfold the row" }
                            dt { kbd { "/" } } dd { "search" }
                            dt { kbd { "." } } dd { "show what is new" }
                            dt { kbd { "y" } } dd { "copy the link of the row" }
                            dt { kbd { "g" } " and a letter" } dd { @for (_, _, name, key) in PLACES { kbd { (key) } " " (name) " " } }
                            dt { kbd { "?" } } dd { "this" }
                        }
                        form method="dialog" { button { "Close" } }
                    }
                }
            }
        }
        .into_string()
    }

    /// A button that changes something, where that is allowed.
    pub(crate) fn button(&self, action: &str, label: &str, hidden: &[(&str, &str)]) -> Markup {
        html! {
            @if let Some(token) = &self.form_token {
                form.inline method="post" action=(action) {
                    input type="hidden" name="token" value=(token);
                    @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                    button { (label) }
                }
            }
        }
    }

    /// How long ago something was, with the time itself.
    pub(crate) fn ago(&self, time: Timestamp) -> Markup {
        // Not below zero: the clock that made the record may be ahead of this one.
        let seconds = self.now.as_second().saturating_sub(time.as_second()).max(0);
        let exact = time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        html! { time datetime=(time.to_string()) title=(exact) { (span_of(seconds)) " ago" } }
    }
}

/// A number for a small place.
pub fn few(count: usize) -> String {
    if count > 99 { "99+".to_owned() } else { count.to_string() }
}

/// The address of the style sheet or of the script.
pub(crate) fn asset(name: &str) -> String {
    format!("/{name}?v={:016x}", crate::ASSETS_VERSION)
}

fn span_of(seconds: i64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Text of others: what can not be seen is spelled out, its direction stays its own, and of a long one the beginning is shown.
pub fn foreign(text: &str) -> Markup {
    // By bytes first, which is cheap; only a text that may be too long is counted in characters.
    let cut = (text.len() > LONGEST).then(|| text.char_indices().nth(LONGEST)).flatten().map(|(at, _)| at);
    html! {
        bdi {
            @match cut {
                None => (spelled(text)),
                Some(at) => {
                    (spelled(&text[..at]))
                    details.all { summary { "… all " (text.chars().count()) " characters" } (spelled(&text[at..])) }
                }
            }
        }
    }
}

/// The same where there can be no markup, and little room.
pub(crate) fn plain(text: &str) -> String {
    let span = |span: VisibleSpan<'_>| match span {
        VisibleSpan::Plain(plain) => plain.to_string(),
        VisibleSpan::Marked(c) => format!("⟦U+{:04X}⟧", u32::from(c)),
    };
    // Cut after it was spelled out: a mark that is cut is shown as a part of one, and hides nothing.
    tidings_diff::visible(text).into_iter().map(span).collect::<String>().chars().take(TITLE).collect()
}

fn spelled(text: &str) -> Markup {
    html! {
        @for span in tidings_diff::visible(text) {
            @match span {
                VisibleSpan::Plain(plain) => (plain),
                VisibleSpan::Marked(c) => mark.unseen title="a character that nobody sees" { "⟦U+" (format!("{:04X}", u32::from(c))) "⟧" },
            }
        }
    }
}

/// The shape and the word; the colour comes last.
pub(crate) fn severity(severity: Severity) -> Markup {
    html! { span class={ "severity " (severity.as_str()) } { (severity.shape()) " " (severity.as_str()) } }
}

/// Which part of many rows a screen shows.
#[derive(Clone, Debug, Default)]
pub struct PagePart {
    /// How many come before it.
    pub from: usize,
    /// How many it shows.
    pub shown: usize,
    /// How many there are.
    pub total: usize,
}

/// The most rows of a screen.
pub const ROWS: usize = 50;

impl PagePart {
    /// Links to what comes before and after. `path` has its filters, if there are any.
    pub(crate) fn pager(&self, path: &str, what: &str) -> Markup {
        let sign = if path.contains('?') { '&' } else { '?' };
        let end = self.from + self.shown;
        html! {
            @if self.shown < self.total {
                nav.pager aria-label="Pages" {
                    @if self.from > 0 { a href={ (path) (sign) "from=" (self.from.saturating_sub(ROWS)) } rel="prev" { "◂ Before" } " " }
                    span.muted { (what) " " (self.from + 1) " to " (end) " of " (self.total) } " "
                    @if end < self.total { a href={ (path) (sign) "from=" (end) } rel="next" { "More ▸" } }
                }
            }
        }
    }
}

/// A number of things.
pub(crate) fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// One member before and after: texts word by word, everything else by path.
pub(crate) fn difference(before: Option<&Value>, after: Option<&Value>, whole: bool) -> Markup {
    let texts = match (before, after) {
        (Some(Value::String(old)), Some(Value::String(new))) => Some((old.as_str(), new.as_str())),
        (None, Some(Value::String(new))) => Some(("", new.as_str())),
        (Some(Value::String(old)), None) => Some((old.as_str(), "")),
        _ => None,
    };
    if let Some((old, new)) = texts {
        return words(old, new, whole);
    }
    let all = tidings_diff::paths(before, after);
    let most = if whole { usize::MAX } else { 12 };
    html! {
        ul.paths {
            @for change in all.iter().take(most) {
                li {
                    code.path { (foreign(&change.path)) }
                    @if let Some((old, new)) = change.texts() {
                        (words(old, new, whole))
                    } @else {
                        @if let Some(old) = &change.before { del { span.sign { "− " } code { (foreign(&old.to_string())) } } }
                        @if let Some(new) = &change.after { ins { span.sign { "+ " } code { (foreign(&new.to_string())) } } }
                    }
                }
            }
            @if all.len() > most { li.muted { "… and " (all.len() - most) " more" } }
        }
    }
}

fn words(old: &str, new: &str, whole: bool) -> Markup {
    let spans = tidings_diff::words(old, new);
    let last = spans.len().saturating_sub(1);
    html! {
        p.words {
            @for (at, span) in spans.iter().enumerate() {
                @match span {
                    WordSpan::Same(text) => (foreign(&shortened(text, at > 0, at < last, whole))),
                    WordSpan::Gone(text) => del { span.sign { "−" } (foreign(text)) },
                    WordSpan::Come(text) => ins { span.sign { "+" } (foreign(text)) },
                }
            }
        }
    }
}

/// Of what stays the same, only what is near a change.
fn shortened(text: &str, after_change: bool, before_change: bool, whole: bool) -> String {
    let count = text.chars().count();
    // Three times as much: a gap that saves a few words is harder to read than the words.
    if whole || count <= 3 * AROUND {
        return text.to_owned();
    }
    let head: String = if after_change { text.chars().take(AROUND).collect() } else { String::new() };
    let tail: String = if before_change { text.chars().skip(count - AROUND).collect() } else { String::new() };
    format!("{head} … {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_becomes_markup_or_stays_unseen() {
        let text = "<script>alert(1)</script>\u{202e}\u{200b}\u{1b}[31m\"'&";
        let html = foreign(text).into_string();
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
        for unseen in ["⟦U+202E⟧", "⟦U+200B⟧", "⟦U+001B⟧"] {
            let shown = unseen.trim_matches(['⟦', '⟧']);
            assert!(html.contains(shown), "{shown}: {html}");
        }
        assert!(!html.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{html}");
    }

    #[test]
    fn what_others_call_themselves_is_spelled_out_in_titles_too() {
        let name = format!("<script>\u{202e}evil\u{200b}{}", "x".repeat(500));
        let page = crate::screens::feed::tests::shell().page(PagePlace::Clients, &name, &html! {});
        assert!(!page.contains(['\u{202e}', '\u{200b}']) && !page.contains("<script>"), "{page}");
        assert!(page.contains("<title>&lt;script&gt;⟦U+202E⟧evil⟦U+200B⟧xxx"), "{page}");
        assert!(page.contains("<h1><bdi>&lt;script&gt;<mark"), "{page}");
        assert!(page.split("</title>").next().is_some_and(|head| head.matches('x').count() < 120), "{page}");
    }

    #[test]
    fn a_long_text_begins_short_and_has_all() {
        let html = foreign(&"x".repeat(5_000)).into_string();
        assert!(html.contains("all 5000 characters") && html.matches('x').count() == 5_000);
    }

    #[test]
    fn what_stays_the_same_far_from_a_change_is_left_out() {
        let long = "same ".repeat(200);
        let html = words(&format!("{long}old"), &format!("{long}new"), false).into_string();
        assert!(html.len() < 600, "{html}");
        assert!(html.contains("<del><span class=\"sign\">−</span><bdi>old</bdi></del>"), "{html}");
        assert!(words(&format!("{long}old"), &format!("{long}new"), true).into_string().len() > 1_000);
    }
}
