//! The text of a prompt: a template, or what a script prints.

use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use tidings_proto::code;

use super::outcome::ScriptFault;
use super::{ScriptCall, ScriptRunner};
use crate::policy::check_script;
use crate::{ProjectPrompt, PromptBody};

impl ScriptRunner {
    pub(super) async fn render(
        &self,
        prompt: &ProjectPrompt,
        params: &Value,
        call: &mut ScriptCall<'_>,
    ) -> Result<Value, ScriptFault> {
        let arguments = params["arguments"].as_object().cloned().unwrap_or_default();
        let missing = prompt.definition["arguments"].as_array().into_iter().flatten().find(|argument| {
            argument["required"] == true && argument["name"].as_str().is_some_and(|name| !arguments.contains_key(name))
        });
        if let Some(missing) = missing {
            let name = missing["name"].as_str().unwrap_or_default();
            return Err(ScriptFault::new(
                code::INVALID_PARAMS,
                format!("prompt {}: argument {name} is required", prompt.name),
            ));
        }
        let text = match &prompt.body {
            PromptBody::Template(path) => fill(&self.read_template(path)?, &arguments),
            PromptBody::Script(path) => {
                check_script(&self.home, "Prompt", &prompt.name)?;
                let mut variables = self.tool_variables.clone();
                variables.insert("MCP_PROMPT_NAME".into(), prompt.name.as_str().into());
                variables.insert("MCP_PROMPT_PATH".into(), path.into());
                variables.insert("MCP_PROMPT_ARGS_JSON".into(), Value::from(arguments).to_string().into());
                let ran = self.run_script(path, &[], variables, self.home.settings.tool_timeout, call).await?;
                if ran.code != 0 {
                    return Err(ScriptFault::internal(ran.complaint("Unable to render prompt")));
                }
                String::from_utf8_lossy(&ran.stdout).into_owned()
            }
        };
        let mut result = match serde_json::from_str::<Value>(&text) {
            // A script may say more than one thing.
            Ok(whole) if matches!(prompt.body, PromptBody::Script(_)) && whole["messages"].is_array() => whole,
            _ => {
                let role = if prompt.role == "assistant" { "assistant" } else { "user" };
                json!({ "messages": [{ "role": role, "content": { "type": "text", "text": text } }] })
            }
        };
        if let (Some(description), None) = (prompt.definition["description"].as_str(), result.get("description")) {
            result["description"] = description.into();
        }
        Ok(result)
    }

    fn read_template(&self, path: &Path) -> Result<String, ScriptFault> {
        let limit = self.home.settings.output_limit;
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| ScriptFault::internal(format!("{}: {error}", path.display())))?;
        if bytes.len() > limit {
            return Err(ScriptFault::internal(format!("{}: longer than {limit} bytes", path.display())));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Replaces `{{name}}` by the argument of that name, once: what an argument says is not looked at again.
fn fill(template: &str, arguments: &Map<String, Value>) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        // An object or a list has no plain text, so the placeholder stays and shows what is missing.
        let value = from[2..].find("}}").and_then(|end| Some((end, plain(arguments.get(&from[2..2 + end])?)?)));
        match value {
            Some((end, value)) => {
                text.push_str(&value);
                rest = &from[end + 4..];
            }
            // Not an argument: left as it is, one brace at a time.
            None => {
                text.push('{');
                rest = &from[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_replaced_and_only_once() {
        // S0.9
        let arguments = json!({"name": "{{other}}", "other": "x", "n": 3, "list": []});
        let filled = fill("Hi {{name}}, {{n}} {{list}} {{absent}} {{{n}}} {{", arguments.as_object().unwrap());
        assert_eq!(filled, "Hi {{other}}, 3 {{list}} {{absent}} {3} {{");
    }
}
