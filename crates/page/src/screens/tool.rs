//! One tool: what it says, what it said, and a form to try it.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::parts::{PagePlace, Shell, difference, foreign, plain};
use crate::screens::feed::encoded;

/// What a tool said since a time.
#[derive(Clone, Debug)]
pub struct ToolStep {
    /// Since when.
    pub since: Timestamp,
    /// What it said before; `None` if that is not known, or it was not there.
    pub before: Option<Value>,
    /// What it said since; `None` if it was gone.
    pub after: Option<Value>,
    /// Whether it is the first that is known.
    pub first: bool,
}

/// One tool.
#[derive(Clone, Debug)]
pub struct ToolScreen {
    /// Its server.
    pub server: String,
    /// What its server calls it.
    pub local: String,
    /// What clients call it, if it is there now.
    pub name: Option<String>,
    /// The time that is looked at; now if there is none.
    pub at: Option<Timestamp>,
    /// What it says then; `None` if it was not there, or that is not known.
    pub definition: Option<Value>,
    /// When it said something else, the newest first.
    pub steps: Vec<ToolStep>,
    /// Calling it may destroy something, as far as it says.
    pub destructive: bool,
    /// Why the last try was not begun.
    pub said: Option<String>,
}

/// The members that are compared, those that people read first.
const FIRST: [&str; 3] = ["description", "title", "inputSchema"];

impl ToolScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let path = tool_path(&self.server, &self.local);
        let content = html! {
            p.muted { "of " a href={ "/servers/" (encoded(&self.server)) } { (foreign(&self.server)) }
                @match &self.name { Some(name) => { " · clients call it " code { (foreign(name)) } }, None => { " · it is not there now" } } }
            @if let Some(said) = &self.said { p.bad role="alert" { "▲ " (foreign(said)) } }
            form.filters method="get" action=(path) {
                label { "At " input type="datetime-local" name="at" value=[self.at.map(|at| at.strftime("%Y-%m-%dT%H:%M").to_string())] aria-label="At a time, UTC"; }
                span.muted { "UTC" }
                button { "Look" }
                @if self.at.is_some() { a href=(path) { "Now" } }
            }
            @match (&self.definition, self.at) {
                (Some(definition), at) => {
                    @if let Some(at) = at { p { "What it said at " (at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()) ":" } }
                    p { (foreign(definition["description"].as_str().unwrap_or_default())) }
                    details { summary { "definition" } pre { code { (foreign(&serde_json::to_string_pretty(definition).unwrap_or_default())) } } }
                }
                (None, Some(_)) => div.empty { p { "It was not there then, or nothing is known of that time." } },
                (None, None) => div.empty { p { "It is not there now." } },
            }
            @if self.name.is_some() && self.at.is_none() && shell.form_token.is_some() {
                @if let Some(definition) = &self.definition { (self.form(shell, definition, &path)) }
            }
            h2 { "What it said" }
            @if self.steps.is_empty() { p.muted { "Nothing is kept of it." } }
            ol.rows { @for step in &self.steps { (step_row(shell, step, &path)) } }
            p { a href={ "/?server=" (encoded(&self.server)) "&kind=tools&q=" (encoded(&self.local)) } { "Its changes in the feed" } " · "
                a href={ "/calls?tool=" (encoded(self.name.as_deref().unwrap_or(&self.local))) } { "Calls of it" } " · " a href="/tools" { "◂ Tools" } }
        };
        shell.page(PagePlace::Tools, &self.local, &content)
    }

    fn form(&self, shell: &Shell, definition: &Value, path: &str) -> Markup {
        let schema = &definition["inputSchema"];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        html! {
            h2 { "Try it" }
            @if self.destructive { p.wait { "▲ It does not say that it only reads: calling it may change or destroy something." } }
            form.try method="post" action={ (path) "/try" } {
                input type="hidden" name="token" value=[shell.form_token.as_deref()];
                @for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    (field(&format!("arg.{name}"), name, property, required.contains(&name.as_str())))
                }
                details { summary { "All arguments as JSON" }
                    p { label { "In the place of the fields above" textarea name="arguments" rows="3" placeholder="{}" {} } } }
                button { "Call" }
            }
        }
    }
}

/// The address of a tool.
pub(crate) fn tool_path(server: &str, local: &str) -> String {
    format!("/tools/{}/{}", encoded(server), encoded(local))
}

/// One member of an object as a field of a form. What a field can not say is JSON.
pub(crate) fn field(field: &str, name: &str, property: &Value, required: bool) -> Markup {
    let choices: Vec<&str> = property["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let preset = match &property["default"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    html! {
        p {
            label {
                code { (foreign(name)) } @if !required { " (may be left out)" }
                @if let Some(text) = property["description"].as_str() { " " span.muted { (foreign(text)) } }
                br;
                @match property["type"].as_str() {
                    _ if !choices.is_empty() => select name=(field) {
                        @if !required { option value="" { "–" } }
                        @for choice in &choices { option value=(choice) selected[*choice == preset] { (plain(choice)) } }
                    },
                    Some("string") => input name=(field) value=(preset) required[required];,
                    Some("integer") => input type="number" step="1" name=(field) value=(preset) required[required];,
                    Some("number") => input type="number" step="any" name=(field) value=(preset) required[required];,
                    Some("boolean") => select name=(field) {
                        @if !required { option value="" { "–" } }
                        option value="true" selected[preset == "true"] { "true" }
                        option value="false" selected[preset == "false"] { "false" }
                    },
                    _ => textarea name=(field) rows="2" placeholder="JSON" required[required] { (preset) },
                }
            }
        }
    }
}

fn step_row(shell: &Shell, step: &ToolStep, path: &str) -> Markup {
    let at = step.since.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    html! {
        li.row tabindex="-1" data-href={ (path) "?at=" (encoded(&at)) } {
            p.head { (shell.ago(step.since)) " " a href={ (path) "?at=" (encoded(&at)) } { "as of then" }
                @match (&step.before, &step.after) {
                    (_, None) => span.bad { "− gone" },
                    (None, Some(_)) if step.first => span.muted { "first seen" },
                    (None, Some(_)) => span { "+ came" },
                    _ => span { "~ changed" },
                } }
            @if let (Some(before), Some(after)) = (&step.before, &step.after) {
                @for member in members(before, after) {
                    div.field { p { code { (foreign(&member)) } } (difference(before.get(&member), after.get(&member), false)) }
                }
            }
        }
    }
}

/// The members that differ.
fn members(before: &Value, after: &Value) -> Vec<String> {
    let names =
        |value: &Value| value.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect::<Vec<_>>();
    let mut all = names(before);
    all.extend(names(after));
    all.sort_by_key(|name| (FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()), name.clone()));
    all.dedup();
    all.retain(|name| before.get(name) != after.get(name));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_becomes_fields_and_hostile_names_stay_text() {
        let hostile = "\"><script>alert(1)</script>";
        let definition = json!({ "name": hostile, "description": hostile, "inputSchema": { "properties": {
            hostile: { "type": "string", "description": hostile, "default": hostile, "enum": [hostile] },
            "count": { "type": "integer" }, "on": { "type": "boolean" }, "deep": { "type": "object" },
        }, "required": ["count"] } });
        let shell = Shell {
            now: "2026-11-16T12:00:00Z".parse().expect("a time"),
            form_token: Some("token".to_owned()),
            failing: 0,
            waiting: 0,
            last_change: 0,
            refresh: false,
        };
        let step = ToolStep {
            since: shell.now,
            before: Some(json!({ "description": "a" })),
            after: Some(definition.clone()),
            first: false,
        };
        let screen = ToolScreen {
            server: hostile.to_owned(),
            local: hostile.to_owned(),
            name: Some(hostile.to_owned()),
            at: None,
            definition: Some(definition),
            steps: vec![step],
            destructive: true,
            said: Some(hostile.to_owned()),
        };
        let page = screen.page(&shell);
        assert!(!page.contains("<script>"), "{page}");
        for wanted in
            ["name=\"arg.count\"", "type=\"number\"", "name=\"arg.on\"", "<textarea name=\"arg.deep\"", "~ changed"]
        {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        let looking = screen.page(&Shell { form_token: None, ..shell });
        assert!(!looking.contains("<form class=\"try\""), "{looking}");
    }
}
