//! A change in words, colours and lines.

use std::fmt::Write as _;

use anstyle::Style;
use jiff::Zoned;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_diff::{DiffLine, PathChange, Severity};
use tidings_store::{ChangeRecord, ChangedItem, FieldChange, ItemRemark};

use crate::commands::terminal::{BOLD, CAME, DIM, KIND, OTHER, TerminalPaint, WENT, cut, harmless};
use crate::weight;

/// How many names are shown of one list.
const NAMES: usize = 30;
/// How many lines of one difference.
const LINES: usize = 24;
/// How many unchanged lines stand around a change.
const AROUND: usize = 1;
/// Where differences begin.
const INDENT: &str = "      ";

/// The page changes are written on, one after the other.
pub(in crate::commands) struct ChangePage {
    paint: TerminalPaint,
    begun: bool,
}

impl ChangePage {
    pub(in crate::commands) fn new(paint: TerminalPaint) -> Self {
        Self { paint, begun: false }
    }

    /// How one definition differs from another.
    pub(in crate::commands) fn definition(&self, item: &ChangedItem) -> String {
        let mut out = String::new();
        self.item(&mut out, item);
        out
    }

    /// One change, with a blank line before all but the first.
    pub(super) fn change(&mut self, record: &ChangeRecord, now: &Zoned) -> String {
        let mut out = String::new();
        if std::mem::replace(&mut self.begun, true) {
            out.push('\n');
        }
        let paint = self.paint;
        let time = record.time.to_zoned(now.time_zone().clone());
        let form = if time.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        let held = if record.held { "  held: tidings approvals" } else { "" };
        let (severity, remarks) = weight::of_record(record);
        let down = if record.while_down { "  while the gateway was down" } else { "" };
        let _ = writeln!(
            out,
            "{}  {}  {}  {}{}",
            paint.styled(DIM, &time.strftime(form).to_string()),
            paint.styled(BOLD, &harmless(&record.server)),
            paint.styled(KIND, &harmless(&record.kind.replace('_', " "))),
            weighty(paint, severity),
            paint.styled(DIM, &format!("#{}{down}{held}", record.seq)),
        );
        if record.lost > 0 {
            let text = format!("  ! {} earlier changes could not be recorded", record.lost);
            let _ = writeln!(out, "{}", paint.styled(WENT, &text));
        }
        for remark in remarks.iter().take(NAMES) {
            self.remark(&mut out, remark);
        }
        self.names(&mut out, CAME, '+', &record.added);
        self.names(&mut out, WENT, '-', &record.removed);
        for item in record.changed.iter().take(NAMES) {
            self.item(&mut out, item);
        }
        self.more(&mut out, '~', record.changed.len().saturating_sub(NAMES) as u64);
        self.more(&mut out, ' ', record.omitted);
        out
    }

    fn remark(&self, out: &mut String, remark: &ItemRemark) {
        let severity = Severity::named(&remark.severity).unwrap_or_default();
        for reason in &remark.reasons {
            let line = format!("{} {} {}", severity.shape(), harmless(&remark.name), harmless(reason));
            let line = self.paint.width.map_or_else(|| line.clone(), |width| cut(&line, width.saturating_sub(2)));
            let style = if severity == Severity::Suspect { WENT } else { OTHER };
            let _ = writeln!(out, "  {}", self.paint.styled(style, &line));
        }
    }

    fn names(&self, out: &mut String, style: Style, sign: char, names: &[String]) {
        for name in names.iter().take(NAMES) {
            let _ = writeln!(out, "  {}", self.paint.styled(style, &format!("{sign} {}", harmless(name))));
        }
        self.more(out, sign, names.len().saturating_sub(NAMES) as u64);
    }

    fn more(&self, out: &mut String, sign: char, count: u64) {
        if count > 0 {
            let _ = writeln!(out, "  {}", self.paint.styled(DIM, &format!("{sign} … and {count} more")));
        }
    }

    fn item(&self, out: &mut String, item: &ChangedItem) {
        let name = self.paint.styled(OTHER, &format!("~ {}", harmless(&item.name)));
        // Of what changed while nobody looked only that is known.
        if item.fields.is_empty() {
            let _ = writeln!(out, "  {name}");
            return;
        }
        let fields = item.fields.iter().map(|field| harmless(field)).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "  {name} {}", self.paint.styled(DIM, &format!("({fields})")));
        for change in &item.diff {
            // With one field its name has just been said.
            if item.diff.len() > 1 {
                let _ = writeln!(out, "    {}", self.paint.styled(DIM, &harmless(&change.field)));
            }
            self.field(out, change);
        }
    }

    fn field(&self, out: &mut String, change: &FieldChange) {
        if change.truncated {
            let _ = writeln!(out, "{INDENT}{}", self.paint.styled(DIM, "too large to be kept"));
            return;
        }
        let (before, after) = (value(change.before.as_deref()), value(change.after.as_deref()));
        let (old, new) = (text(before.as_ref()), text(after.as_ref()));
        let parts: Vec<[Option<String>; 2]> = tidings_diff::paths(before.as_ref(), after.as_ref())
            .iter()
            .map(|part: &PathChange| [part.gone(), part.come()])
            .collect();
        // Text is compared line by line, everything else by its structure.
        let lines = match (&old, &new) {
            (Some(old), Some(new)) => {
                tidings_diff::lines(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>(), AROUND)
            }
            _ => parts
                .iter()
                .flat_map(|[gone, come]| {
                    [gone.as_deref().map(DiffLine::Gone), come.as_deref().map(DiffLine::Come)].into_iter().flatten()
                })
                .collect(),
        };
        let shown = lines.len().min(LINES);
        let mut at = 0;
        while at < shown {
            // A line that became another one: both are shortened to where they differ.
            match (lines[at], lines.get(at + 1).copied()) {
                (DiffLine::Gone(old), Some(DiffLine::Come(new))) => {
                    let (old, new) = self.fitting(old, new);
                    self.signed(out, WENT, '-', &old);
                    self.signed(out, CAME, '+', &new);
                    at += 2;
                    continue;
                }
                (DiffLine::Same(line), _) => self.signed(out, DIM, ' ', &self.fitting(line, line).0),
                (DiffLine::Gone(line), _) => self.signed(out, WENT, '-', &self.fitting(line, "").0),
                (DiffLine::Come(line), _) => self.signed(out, CAME, '+', &self.fitting("", line).1),
                (DiffLine::Skipped, _) => self.signed(out, DIM, ' ', "⋮"),
            }
            at += 1;
        }
        // A pair may have taken one line more than the limit.
        let rest = lines.len().saturating_sub(at);
        if rest > 0 {
            let text = format!("… {rest} more lines; --json shows all");
            let _ = writeln!(out, "{INDENT}{}", self.paint.styled(DIM, &text));
        }
    }

    fn fitting(&self, old: &str, new: &str) -> (String, String) {
        let (old, new) = (harmless(old), harmless(new));
        match self.paint.width {
            Some(width) => {
                let room = width.saturating_sub(INDENT.len() + 2).max(24);
                tidings_diff::shortened(&old, &new, room)
            }
            None => (old, new),
        }
    }

    fn signed(&self, out: &mut String, style: Style, sign: char, line: &str) {
        let line = self.paint.styled(style, format!("{sign} {line}").trim_end());
        let _ = writeln!(out, "{INDENT}{line}");
    }
}

/// What is said only of changes that somebody should look at.
fn weighty(paint: TerminalPaint, severity: Severity) -> String {
    let style = match severity {
        Severity::Quiet | Severity::Wording => return String::new(),
        Severity::Breaking => OTHER,
        Severity::Suspect => WENT,
    };
    format!("{}  ", paint.styled(style, &format!("{} {}", severity.shape(), severity.as_str())))
}

fn value(raw: Option<&RawValue>) -> Option<Value> {
    raw.map(|raw| serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().into()))
}

/// The text of a string or of nothing; `None` for what has a structure.
fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        None => Some(""),
        Some(Value::String(text)) => Some(text),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(colours: bool, width: Option<usize>) -> ChangePage {
        ChangePage::new(TerminalPaint { colours, width })
    }

    fn record(json: &str) -> ChangeRecord {
        serde_json::from_str(json).expect("a record")
    }

    fn now() -> Zoned {
        "2026-11-15T12:00:00+01:00[+01:00]".parse().expect("a time")
    }

    #[test]
    fn a_change_has_colours_on_a_terminal() {
        let change = record(
            r#"{"seq":7,"time":"2026-11-15T10:59:58.5Z","server":"s","kind":"resource_templates",
                "added":["a"],"removed":["b"],"changed":[{"name":"c","fields":["x"],"diff":[{"field":"x","after":1}]}]}"#,
        );
        let expected = "\u{1b}[2m11:59:58\u{1b}[0m  \u{1b}[1ms\u{1b}[0m  \u{1b}[36mresource templates\u{1b}[0m  \u{1b}[33m▲ breaking\u{1b}[0m  \
                        \u{1b}[2m#7\u{1b}[0m\n  \u{1b}[33m▲ c x changed, and its meaning is not known here\u{1b}[0m\n  \
                        \u{1b}[32m+ a\u{1b}[0m\n  \u{1b}[31m- b\u{1b}[0m\n  \u{1b}[33m~ c\u{1b}[0m \u{1b}[2m(x)\u{1b}[0m\n      \
                        \u{1b}[32m+ 1\u{1b}[0m\n";
        let shown = page(true, Some(80)).change(&change, &now());
        assert_eq!(crate::plain_text::with_styles(&shown), expected);
    }

    // edges F11
    #[test]
    fn what_changed_while_the_gateway_was_down_is_shown_as_such() {
        let change = record(
            r#"{"seq":7,"time":"2026-11-15T10:59:58.5Z","server":"s","kind":"tools","added":["a"],"removed":[],
                "changed":[{"name":"c","fields":[]}],"while_down":true}"#,
        );
        let expected = "11:59:58  s  tools  ▲ breaking  #7  while the gateway was down\n  ▲ c what changed is not known\n  + a\n  ~ c\n";
        assert_eq!(page(false, None).change(&change, &now()), expected);
    }

    #[test]
    fn another_day_is_named_and_a_loss_is_told() {
        let change = record(
            r#"{"seq":7,"time":"2026-11-14T10:59:58Z","server":"s","kind":"tools","added":[],"removed":[],
                "changed":[],"lost":3,"omitted":2}"#,
        );
        let mut page = page(false, None);
        page.change(&change, &now());
        let expected =
            "\n2026-11-14 11:59:58  s  tools  #7\n  ! 3 earlier changes could not be recorded\n    … and 2 more\n";
        assert_eq!(page.change(&change, &now()), expected, "with a blank line before it");
    }

    #[test]
    fn nothing_is_wider_than_the_terminal_and_nothing_longer_than_a_page() {
        let words = |word: &str| format!("{word} ").repeat(60);
        let lines = |word: &str| (0..100).map(|n| format!("{word}{n}")).collect::<Vec<_>>().join("\n");
        let field = |name: &str, before: &str, after: &str| serde_json::json!({"field": name, "before": before, "after": after});
        let names: Vec<String> = (0..100).map(|n| format!("tool{n}")).collect();
        let change = serde_json::json!({
            "seq": 1, "time": "2026-11-15T10:59:58Z", "server": "s", "kind": "tools", "added": names, "removed": [],
            "changed": [{"name": "c", "fields": ["a", "b", "c"], "diff": [
                field("a", &words("same"), &format!("{}new", words("same"))),
                field("b", &lines("old"), &lines("new")),
                {"field": "c", "truncated": true},
            ]}],
        });
        let text = page(false, Some(60)).change(&record(&change.to_string()), &now());
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.lines().count() < 75, "{text}");
        for part in ["+ … and 70 more", "more lines; --json shows all", "too large to be kept", "same new"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
