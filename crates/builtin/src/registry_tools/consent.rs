//! Asking a person before a tool starts something. Models can be talked into anything by what they read.

use serde_json::{Map, Value, json};

use super::{RegistryToolSet, ToolProblem, ToolReply};
use crate::local::LocalRequest;

/// Under which the answer comes back.
const QUESTION: &str = "start";

/// Whether something may start without a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartConsent {
    /// Whoever can be asked is asked; for others their client asks, or nobody.
    WherePossible,
    /// Nothing starts where nobody can be asked.
    Always,
}

impl RegistryToolSet {
    /// Asks whether a server may be started; nothing when that was answered with yes for exactly this server, or nobody can be asked.
    pub(super) fn consent(
        &self,
        request: &LocalRequest,
        name: &str,
        server: &Value,
    ) -> Result<Option<ToolReply>, ToolProblem> {
        let params = request.params();
        // The answer is for what was shown: a request that came back with other arguments is asked about anew.
        let shown = blake3::hash(json!([name, server]).to_string().as_bytes()).to_hex().to_string();
        if params["requestState"].as_str() == Some(&shown) {
            let answer = &params["inputResponses"][QUESTION];
            return match answer["action"] == "accept" && answer["content"]["start"] == true {
                true => Ok(None),
                false => Err(ToolProblem("the user did not agree, so nothing was started".to_owned())),
            };
        }
        // The client of this very call: another of the same person may have no forms.
        let can_be_asked = self.surroundings.client(request.call).is_some_and(|client| client.fills_in_forms);
        match (can_be_asked, self.context.consent) {
            (true, _) => Ok(Some(ToolReply::asking(question(name, server, &shown)))),
            (false, StartConsent::WherePossible) => Ok(None),
            (false, StartConsent::Always) => Err(ToolProblem(
                "nothing was started: registry_tools = \"ask\" wants a yes of a person, and this client can not be asked \
                 (elicitation); add the server with `tidings add`"
                    .to_owned(),
            )),
        }
    }
}

fn question(name: &str, server: &Value, state: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "start": { "type": "boolean", "title": "Start it", "description": "Nothing starts without a yes." } },
        "required": ["start"],
    });
    json!({
        "resultType": "input_required",
        "requestState": state,
        "inputRequests": { QUESTION: {
            "method": "elicitation/create",
            "params": { "mode": "form", "message": description(name, server), "requestedSchema": schema },
        } },
    })
}

/// What would start, with the names of variables and headers and never their values.
fn description(name: &str, server: &Value) -> String {
    let mut lines = vec![format!("A tool wants to add the server {} on this machine.", word(name))];
    let words = |key: &str| server[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(word);
    if let Some(command) = server["command"].as_str() {
        let line: Vec<String> = std::iter::once(word(command)).chain(words("args")).collect();
        lines.push(format!("Command: {}", line.join(" ")));
    }
    if let Some(image) = server["container"].as_str() {
        let line: Vec<String> = std::iter::once(word(image)).chain(words("args")).collect();
        lines.push(format!("Container: {}", line.join(" ")));
    }
    if let Some(url) = server["url"].as_str() {
        lines.push(format!("URL: {}", word(&tidings_upstream::ShownUrl::of(url).to_string())));
    }
    for (key, label) in [("env", "Variables"), ("headers", "Headers")] {
        let names: Vec<String> =
            server[key].as_object().into_iter().flat_map(Map::keys).map(|name| word(name)).collect();
        if !names.is_empty() {
            lines.push(format!("{label}: {}", names.join(", ")));
        }
    }
    lines.push(format!("From: {}", word(server["entry"].as_str().unwrap_or("the tool's own arguments"))));
    lines.join("\n")
}

/// A word as it is, or quoted where it could be read as something else.
fn word(text: &str) -> String {
    // Anything else is quoted, so that a word can not pass for two, or for the next line of the question.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@%+=:,./_-".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("{text:?}") }
}

/// A value that a tool was given, so that it is taken as it is written: it refers to nothing.
pub(super) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T3
    #[test]
    fn what_would_start_is_shown_exactly_and_without_values() {
        let server = json!({"command": "sh", "args": ["-c", "echo a\u{202e}b; rm x"], "env": {"KEY": "hush"}});
        let text = description("notes", &server);
        assert!(text.contains("Command: sh -c \"echo a\\u{202e}b; rm x\"\nVariables: KEY"), "{text}");
        assert!(!text.contains("hush"));
        assert_eq!(literal("${env:HOME} $${x}"), "$${env:HOME} $$${x}");
    }
}
