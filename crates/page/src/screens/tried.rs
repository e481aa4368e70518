//! A call that is tried: how far it is, what it asks, and what came of it.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use crate::parts::{PagePlace, Shell, foreign};
use crate::screens::feed::encoded;

/// How far it is.
#[derive(Clone, Debug)]
pub enum TriedPhase {
    /// At its server.
    Running,
    /// The server asks something, by key.
    Asked(Value),
    /// It has a result.
    Done(Value),
    /// It has none, and why.
    Failed(String),
    /// Somebody ended it.
    Cancelled,
}

/// One call.
#[derive(Clone, Debug)]
pub struct TriedScreen {
    /// Its number.
    pub id: u64,
    /// The tool.
    pub tool: String,
    /// Where the tool is shown.
    pub back: Option<(String, String)>,
    /// Its arguments.
    pub arguments: Value,
    /// When it began, and ended.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How far it is.
    pub phase: TriedPhase,
    /// How much is done, of how much, and words.
    pub progress: Option<(f64, Option<f64>, String)>,
    /// What the server logged for it.
    pub messages: Vec<String>,
}

impl TriedScreen {
    /// Whether something may change by itself.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, TriedPhase::Running)
    }

    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let path = format!("/tries/{}", self.id);
        let over = self.ended.map(|ended| ended.as_millisecond() - self.started.as_millisecond());
        let content = html! {
            p role="status" data-running[self.is_running()] {
                @match &self.phase {
                    TriedPhase::Running => span.wait { "◐ running" },
                    TriedPhase::Asked(_) => span.wait { "◔ the server asks" },
                    TriedPhase::Done(result) if result["isError"] == true => span.bad { "▲ the tool reports an error" },
                    TriedPhase::Done(_) => span.ok { "● answered" },
                    TriedPhase::Failed(_) => span.bad { "▲ failed" },
                    TriedPhase::Cancelled => span.off { "○ cancelled" },
                }
                @if let Some(over) = over { " after " (over) " ms" } @else { ", begun " (shell.ago(self.started)) }
            }
            @if let Some((done, total, words)) = &self.progress {
                p { @match total {
                        Some(total) => { progress #progress value=(done) max=(total) aria-label="Progress" {} " " (done) " of " (total) },
                        None => { "so far: " (done) },
                    } " " (foreign(words)) }
            }
            @match &self.phase {
                TriedPhase::Asked(questions) => (self.questions(shell, questions, &path)),
                TriedPhase::Done(result) => (result_of(result)),
                TriedPhase::Failed(error) => p.bad { (foreign(error)) },
                _ => {}
            }
            @if self.ended.is_none() { p { (shell.button(&format!("{path}/cancel"), "Cancel", &[])) } }
            @if !self.messages.is_empty() {
                h2 { "What the server logged" }
                pre.log tabindex="0" role="region" aria-label="Log" { code { @for line in &self.messages { (foreign(line)) "\n" } } }
            }
            h2 { "Arguments" }
            pre { code { (foreign(&serde_json::to_string_pretty(&self.arguments).unwrap_or_default())) } }
            p { @if let Some((server, local)) = &self.back { a href=(crate::screens::tool::tool_path(server, local)) { "◂ The tool" } " · " }
                a href={ "/calls?tool=" (encoded(&self.tool)) } { "Calls of it" } }
        };
        shell.page(PagePlace::Tools, &format!("Trying {}", self.tool), &content)
    }

    fn questions(&self, shell: &Shell, questions: &Value, path: &str) -> Markup {
        html! {
            @if let Some(token) = &shell.form_token {
                form.try method="post" action={ (path) "/answer" } {
                    input type="hidden" name="token" value=(token);
                    @for (key, question) in questions.as_object().into_iter().flatten() { (one_question(key, question)) }
                    button name="action" value="accept" { "Answer" }
                    " " button name="action" value="decline" formnovalidate { "Decline" }
                }
            }
        }
    }
}

/// A question of a server: a form, an address to visit, or something that a page can not answer.
fn one_question(key: &str, question: &Value) -> Markup {
    let params = &question["params"];
    let schema = &params["requestedSchema"];
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        fieldset {
            legend { (foreign(params["message"].as_str().unwrap_or(question["method"].as_str().unwrap_or(key)))) }
            @if question["method"] != "elicitation/create" { p.muted { "A page can not answer this: it is declined." } }
            // An address of others is text, never a link.
            @if let Some(url) = params["url"].as_str() { p { "Visit this address, then answer: " code { (foreign(url)) } } }
            @for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                (crate::screens::tool::field(&format!("q.{key}.{name}"), name, property, required.contains(&name.as_str())))
            }
        }
    }
}

fn result_of(result: &Value) -> Markup {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        h2 { "Result" }
        @for block in blocks {
            @match block["text"].as_str() {
                Some(text) if block["type"] == "text" => pre { code { (foreign(text)) } },
                // Pictures and sounds of others are not shown: only what they are.
                _ => p.muted { (foreign(block["type"].as_str().unwrap_or("unknown"))) ", " (block.to_string().len()) " bytes" },
            }
        }
        @if blocks.is_empty() { p.muted { "It has no content." } }
        details { summary { "as JSON" } pre { code { (foreign(&serde_json::to_string_pretty(result).unwrap_or_default())) } } }
    }
}
