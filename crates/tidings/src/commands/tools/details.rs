//! All about one tool: what it does, what it wants, and a command that calls it.

use serde_json::Value;

use crate::commands::terminal::{BOLD, DIM, TerminalPaint, harmless};
use crate::shell_word::shell_word;

/// Members of a tool's `annotations`, in words.
const HINTS: [(&str, bool, &str); 4] = [
    ("readOnlyHint", true, "changes nothing"),
    ("destructiveHint", true, "may destroy things"),
    ("idempotentHint", true, "may be repeated"),
    ("openWorldHint", true, "reaches outside"),
];

pub(super) fn of(tool: &Value, paint: TerminalPaint) -> String {
    let text = |value: &Value| harmless(value.as_str().unwrap_or_default());
    let name = text(&tool["name"]);
    let mut out =
        format!("{}  {}\n", paint.styled(BOLD, &name), paint.styled(DIM, &format!("of {}", text(&tool["server"]))));
    for line in tool["description"].as_str().unwrap_or_default().trim().lines() {
        out.push_str(&format!("  {}\n", harmless(line)));
    }
    // Only what is written: by the defaults of MCP every tool would be destructive and reach outside.
    let hints: Vec<&str> =
        HINTS.iter().filter(|(key, wanted, _)| tool["annotations"][key] == *wanted).map(|(.., word)| *word).collect();
    if !hints.is_empty() {
        out.push_str(&format!("  {}\n", paint.styled(DIM, &format!("Its server says: {}", hints.join(", ")))));
    }
    let schema = &tool["inputSchema"];
    let arguments: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    if !arguments.is_empty() {
        out.push_str(&format!("\n{}\n", paint.styled(BOLD, "Arguments")));
    }
    // One long name must not push all descriptions to the right.
    let width = arguments.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(24);
    for (name, property) in &arguments {
        let must = if required(name) { "required" } else { "optional" };
        let kind = format!("{}, {must}", kind(property));
        let about = property["description"]
            .as_str()
            // `\u{a}` is what `harmless` makes of the end of a line; the description has one line here.
            .map(|about| format!("  {}", harmless(about.trim()).replace("\\u{a}", " ")))
            .unwrap_or_default();
        out.push_str(&format!("  {:width$}  {}{about}\n", harmless(name), paint.styled(DIM, &kind)));
    }
    let example: Vec<String> = arguments
        .iter()
        .filter(|(name, _)| required(name))
        // A server's words in a command that is copied into a shell.
        .map(|(name, property)| harmless(&format!("{}={}", shell_word(name), shell_word(&sample(property)))))
        .collect();
    out.push_str(
        format!("\n{}\n  tidings call {name} {}", paint.styled(BOLD, "Call it"), example.join(" ")).trim_end(),
    );
    out.push('\n');
    let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
    out.push_str(&format!("\n{}\n", paint.styled(BOLD, "Schema of the arguments")));
    schema.lines().for_each(|line| out.push_str(&format!("  {}\n", harmless(line))));
    if let Some(output) = tool.get("outputSchema").filter(|output| output.is_object()) {
        out.push_str(&format!("\n{}\n", paint.styled(BOLD, "Schema of the result")));
        let output = serde_json::to_string_pretty(output).unwrap_or_default();
        output.lines().for_each(|line| out.push_str(&format!("  {}\n", harmless(line))));
    }
    out
}

/// What a value may be, in few words.
fn kind(property: &Value) -> String {
    if let Some(choices) = property["enum"].as_array() {
        let choices: Vec<String> =
            choices.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), harmless)).collect();
        return choices.join(" | ");
    }
    let kind = match &property["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    };
    match property.get("default") {
        Some(default) if !default.is_null() => format!("{kind}, default {}", harmless(&default.to_string())),
        _ => kind,
    }
}

/// A value that shows where the real one goes.
fn sample(property: &Value) -> String {
    if let Some(first) = property["enum"].as_array().and_then(|choices| choices.first()) {
        return first.as_str().map_or_else(|| first.to_string(), str::to_owned);
    }
    match property["type"].as_str() {
        Some("number" | "integer") => "1",
        Some("boolean") => "true",
        Some("array") => "[]",
        Some("object") => "{}",
        _ => "TEXT",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // edges F17
    #[test]
    fn a_tool_is_shown_with_its_arguments_an_example_and_its_schema() {
        let tool = json!({
            "name": "notes__add", "server": "notes", "description": "Adds a note.\nKeeps it.",
            "annotations": {"idempotentHint": true},
            "inputSchema": {"type": "object", "required": ["text"], "properties": {
                "text": {"type": "string", "description": "What to keep."}, "stars": {"enum": [1, 2]},
            }},
        });
        let shown = of(&tool, TerminalPaint { colours: false, width: Some(80) });
        for words in [
            "notes__add  of notes\n  Adds a note.\n  Keeps it.\n",
            "may be repeated",
            "text   string, required  What to keep.",
            "stars  1 | 2, optional",
            "tidings call notes__add text=TEXT\n",
            "\"required\": [",
        ] {
            assert!(shown.contains(words), "{words:?} is missing:\n{shown}");
        }
    }

    // trust T9
    #[test]
    fn an_example_runs_nothing_of_the_servers_when_it_is_copied() {
        let tool = json!({"name": "a__b", "server": "a", "inputSchema": {"required": ["x; rm -rf ~", "y"], "properties": {
            "x; rm -rf ~": {"type": "array"}, "y": {"enum": ["$(curl evil)'; id #"]},
        }}});
        let shown = of(&tool, TerminalPaint { colours: false, width: Some(80) });
        let command = shown.lines().find(|line| line.contains("tidings call")).expect("an example");
        let words = r#"tidings call a__b 'x; rm -rf ~'='[]' y='$(curl evil)'\''; id #'"#;
        assert_eq!(command.trim(), words);
    }
}
