//! What became of a tool, in the words of the protocol.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidings_upstream::in_process::RequestError;

use super::clock::{PassedBound, TimeBounds};
use crate::ui;

/// The code of a call that was cancelled.
pub const CANCELLED: i64 = -32001;

/// An error in the place of a result.
pub type ScriptFault = RequestError;

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptEnd {
    /// By itself, with this code.
    Exited(i32),
    /// It took too long.
    TimedOut(PassedBound),
    /// Nobody wants its answer any more.
    Cancelled,
    /// It wrote more than this many bytes.
    TooMuchOutput(usize),
    /// The script wrote more than this to standard error, and was ended.
    TooMuchStderr(usize),
    /// It had more than this many processes.
    TooManyProcesses(usize),
}

/// What is known at the end.
pub(crate) struct FinishedScript<'a> {
    pub(crate) end: ScriptEnd,
    pub(crate) stdout: &'a [u8],
    pub(crate) stderr: &'a str,
    /// What the tool left as its error.
    pub(crate) error: &'a [u8],
    pub(crate) bounds: TimeBounds,
    pub(crate) hint: Option<&'a str>,
    pub(crate) output_schema: Option<&'a Value>,
}

/// A result or an error.
pub(crate) fn judge(finished: &FinishedScript<'_>) -> Result<Value, ScriptFault> {
    // What the tool says of itself comes before what we saw.
    // A cancelled tool is often killed in the middle of writing its error.
    if !finished.error.trim_ascii().is_empty() && finished.end != ScriptEnd::Cancelled {
        // Words without a code are for whoever called, as every other failure of a script is.
        return authored(finished.error).map_or_else(|| Ok(left_words(finished)), Err);
    }
    match finished.end {
        ScriptEnd::TooMuchOutput(limit) => Err(ScriptFault::internal(format!(
            "Tool output exceeded {limit} bytes (MCPBASH_MAX_TOOL_OUTPUT_SIZE); it was stopped"
        ))),
        ScriptEnd::TooMuchStderr(limit) => Err(ScriptFault::internal(format!(
            "Tool stderr exceeded {limit} bytes (MCPBASH_MAX_TOOL_STDERR_SIZE); it was stopped"
        ))),
        ScriptEnd::TooManyProcesses(limit) => Err(ScriptFault::internal(format!(
            "Tool had more than {limit} processes at a time (TIDINGS_TOOL_PROCESSES); it was stopped"
        ))),
        ScriptEnd::Cancelled => Err(ScriptFault::new(CANCELLED, "Tool cancelled")),
        ScriptEnd::TimedOut(reason) => Ok(timed_out(finished, reason)),
        ScriptEnd::Exited(0) => succeeded(finished),
        ScriptEnd::Exited(code) => failed(finished, code),
    }
}

/// An error that a tool wrote: a whole code and a message.
fn authored(text: &[u8]) -> Option<ScriptFault> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let code = &value["code"];
    // A code that was computed may be written as `-32001.0`.
    let whole = code.as_f64().filter(|code| code.fract() == 0.0);
    #[allow(clippy::cast_possible_truncation, reason = "it is whole")]
    let code = code.as_i64().or(whole.map(|code| code as i64))?;
    let data = value.get("data").filter(|data| !data.is_null()).cloned();
    Some(ScriptFault { code, message: value["message"].as_str()?.to_owned(), data })
}

fn succeeded(finished: &FinishedScript<'_>) -> Result<Value, ScriptFault> {
    let PrintedJson { first, rest } = PrintedJson::read(finished.stdout);
    check_schema(finished, first.as_ref())?;
    let mut result = match first {
        Some(Value::Object(mut result)) if is_result(&result) => {
            // The helpers that print a result do not end a script. What it printed first is its answer, the rest goes along.
            if let (Some(rest), Some(content)) = (rest, result.get_mut("content").and_then(Value::as_array_mut)) {
                content.push(text_block(&lossy(rest)));
            }
            result
        }
        // Only an object may stand there; the text says the rest. Lines of JSON have one only where it was declared.
        Some(Value::Object(object)) if rest.is_none() || finished.output_schema.is_some() => {
            let mut result = text_result(finished.stdout, false);
            result.insert("structuredContent".into(), object.into());
            result
        }
        _ => text_result(finished.stdout, false),
    };
    ui::respell(&mut result);
    add_meta(&mut result, 0, finished.stderr);
    Ok(result.into())
}

/// What a script printed, as JSON.
struct PrintedJson<'a> {
    /// The first value, if there are only values.
    first: Option<Value>,
    /// What follows it, if anything does.
    rest: Option<&'a [u8]>,
}

impl<'a> PrintedJson<'a> {
    fn read(stdout: &'a [u8]) -> Self {
        let mut values = serde_json::Deserializer::from_slice(stdout).into_iter::<Value>();
        let Some(Ok(first)) = values.next() else { return Self { first: None, rest: None } };
        let rest = stdout[values.byte_offset()..].trim_ascii();
        // "42 is the answer" is a text, not a number.
        let all = values.all(|value| value.is_ok());
        Self { first: all.then_some(first), rest: (!rest.is_empty()).then_some(rest) }
    }
}

fn failed(finished: &FinishedScript<'_>, code: i32) -> Result<Value, ScriptFault> {
    if let Some(fault) = authored(finished.stdout) {
        return Err(fault);
    }
    // A whole result is the better answer: whoever asked can act on it.
    if let Ok(Value::Object(mut result)) = serde_json::from_slice::<Value>(finished.stdout)
        && is_result(&result)
    {
        result.insert("isError".into(), true.into());
        add_meta(&mut result, code, finished.stderr);
        return Ok(result.into());
    }
    // A result and not an error of the protocol: most clients hide the data of an error from their model.
    let mut result = Map::new();
    let mut content = vec![text_block(&reason(code, finished.stderr))];
    if !finished.stdout.trim_ascii().is_empty() {
        content.push(text_block(&lossy(finished.stdout)));
    }
    result.insert("content".into(), content.into());
    result.insert("isError".into(), true.into());
    add_meta(&mut result, code, finished.stderr);
    Ok(result.into())
}

/// What a tool wrote as its error, where that is no error of the protocol.
fn left_words(finished: &FinishedScript<'_>) -> Value {
    let mut result = text_result(finished.error, true);
    let code = if let ScriptEnd::Exited(code) = finished.end { code } else { 1 };
    add_meta(&mut result, code, finished.stderr);
    result.into()
}

/// How a script failed: its exit code, and the end of what it wrote to standard error.
fn reason(code: i32, stderr: &str) -> String {
    match stderr.trim_end() {
        "" => format!("Tool failed with exit code {code}"),
        said => format!("Tool failed with exit code {code}:\n{said}"),
    }
}

fn timed_out(finished: &FinishedScript<'_>, reason: PassedBound) -> Value {
    /// What `timeout` exits with.
    const CODE: i32 = 124;
    let (allowed, most) = (seconds(finished.bounds.allowed), seconds(finished.bounds.most));
    let mut message = match reason {
        PassedBound::Fixed => format!("Tool timed out after {allowed}s"),
        PassedBound::Idle => format!("Tool timed out after {allowed}s (no progress reported)"),
        PassedBound::MaxExceeded => format!("Tool exceeded maximum runtime of {most}s"),
    };
    let mut error = json!({
        "type": "timeout",
        "reason": reason.as_str(),
        "timeoutSecs": allowed,
        "exitCode": CODE,
    });
    if finished.bounds.extends {
        error["progressExtendsTimeout"] = true.into();
        error["maxTimeoutSecs"] = most;
    }
    if let Some(hint) = finished.hint {
        message.push_str(&format!("\n\nSuggestion: {hint}"));
        error["hint"] = hint.into();
    }
    error["message"] = message.as_str().into();
    let mut result = text_result(message.as_bytes(), true);
    result.insert("structuredContent".into(), json!({ "success": false, "error": error }));
    add_meta(&mut result, CODE, finished.stderr);
    result.into()
}

/// The checks that are promised: required members and the types of those that are there.
fn check_schema(finished: &FinishedScript<'_>, parsed: Option<&Value>) -> Result<(), ScriptFault> {
    let Some(schema) = finished.output_schema.filter(|schema| schema.is_object()) else { return Ok(()) };
    let Some(parsed) = parsed else {
        let empty = finished.stdout.trim_ascii().is_empty();
        let what = if empty { "is empty" } else { "is not valid JSON" };
        return Err(ScriptFault::internal(format!("Tool output {what} for declared outputSchema")));
    };
    let whole = parsed.as_object().is_some_and(is_result);
    // A failure need not have the form of a success.
    if whole && parsed["isError"] == true {
        return Ok(());
    }
    let data = if whole { &parsed["structuredContent"] } else { parsed };
    if schema.get("type").is_some_and(|kind| kind != "object") {
        return Ok(());
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let missing = required.map(|name| (name, data.get(name).is_some()));
    let mistyped = properties.map(|(name, property)| (name.as_str(), has_type(&data[name], &property["type"])));
    match missing.chain(mistyped).find(|(_, good)| !good) {
        Some((name, _)) => Err(ScriptFault {
            data: Some(json!({ "member": name })),
            ..ScriptFault::internal("Tool output does not satisfy outputSchema")
        }),
        None => Ok(()),
    }
}

fn has_type(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        // Absent, or nothing: whether it must be there is asked by `required`.
        _ if value.is_null() => true,
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    }
}

/// Whether a tool printed a whole `CallToolResult`.
fn is_result(object: &Map<String, Value>) -> bool {
    let blocks = object.get("content").and_then(Value::as_array);
    blocks.is_some_and(|blocks| {
        // An empty list of blocks is a result only where the tool says so by this member; it could be data.
        (object.contains_key("isError") || !blocks.is_empty()) && blocks.iter().all(|block| block["type"].is_string())
    })
}

fn text_result(text: &[u8], is_error: bool) -> Map<String, Value> {
    let mut result = Map::new();
    result.insert("content".into(), json!([text_block(&lossy(text))]));
    result.insert("isError".into(), is_error.into());
    result
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn add_meta(result: &mut Map<String, Value>, code: i32, stderr: &str) {
    let own = meta(code, stderr);
    match result.get_mut("_meta").and_then(Value::as_object_mut) {
        Some(meta) => meta.extend(own),
        None => _ = result.insert("_meta".into(), own.into()),
    }
}

fn meta(code: i32, stderr: &str) -> Map<String, Value> {
    let mut meta = Map::from_iter([("exitCode".to_owned(), Value::from(code))]);
    if !stderr.is_empty() {
        meta.insert("stderr".into(), stderr.into());
    }
    meta
}

/// What is not UTF-8 is shown as such.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whole where it is whole.
fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { time.as_secs().into() } else { time.as_secs_f64().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TimeBounds =
        TimeBounds { allowed: Duration::from_secs(30), extends: false, most: Duration::from_secs(600) };

    fn finished<'a>(end: ScriptEnd, stdout: &'a [u8]) -> FinishedScript<'a> {
        FinishedScript { end, stdout, stderr: "", error: b"", bounds: BOUNDS, hint: None, output_schema: None }
    }

    #[test]
    fn text_json_and_whole_results_are_told_apart() {
        // S0.9
        let text = judge(&finished(ScriptEnd::Exited(0), b"hello\n")).unwrap();
        assert_eq!(
            text,
            json!({"content": [{"type": "text", "text": "hello\n"}], "isError": false, "_meta": {"exitCode": 0}})
        );
        let object = judge(&finished(ScriptEnd::Exited(0), b"{\"a\": 1}")).unwrap();
        assert_eq!(
            (&object["structuredContent"], &object["content"][0]["text"]),
            (&json!({"a": 1}), &json!("{\"a\": 1}"))
        );
        let whole = br#"{"content":[{"type":"text","text":"x"}],"isError":true,"_meta":{"ui":1}}"#;
        let passed = judge(&FinishedScript { stderr: "warned", ..finished(ScriptEnd::Exited(0), whole) }).unwrap();
        assert_eq!(passed["_meta"], json!({"ui": 1, "exitCode": 0, "stderr": "warned"}));
        assert_eq!((&passed["isError"], &passed["structuredContent"]), (&json!(true), &Value::Null));
    }

    // edges E
    #[test]
    fn the_old_spelling_of_a_page_is_the_new_one_for_clients() {
        let whole = br#"{"content":[],"isError":false,"_meta":{"ui/resourceUri":"ui://s/a","mine":1}}"#;
        let result = judge(&finished(ScriptEnd::Exited(0), whole)).unwrap();
        assert_eq!(result["_meta"], json!({"ui": {"resourceUri": "ui://s/a"}, "mine": 1, "exitCode": 0}));
    }

    // edges E
    #[test]
    fn a_script_that_goes_on_after_its_result_is_answered_with_that() {
        let schema = json!({"type": "object", "required": ["success"]});
        let refused =
            r#"{"content":[{"type":"text","text":"no"}],"structuredContent":{"success":false},"isError":true}"#;
        let again =
            r#"{"content":[{"type":"text","text":"never"}],"structuredContent":{"success":true},"isError":false}"#;
        let stdout = format!("{refused}\n{again}\n");
        for output_schema in [None, Some(&schema)] {
            let result =
                judge(&FinishedScript { output_schema, ..finished(ScriptEnd::Exited(0), stdout.as_bytes()) }).unwrap();
            assert_eq!((&result["isError"], &result["structuredContent"]), (&json!(true), &json!({"success": false})));
            assert_eq!(result["content"], json!([{"type": "text", "text": "no"}, {"type": "text", "text": again}]));
        }
        let lines = judge(&finished(ScriptEnd::Exited(0), b"{\"success\":1}\n{\"b\":2}\n")).unwrap();
        assert_eq!(
            (lines["content"][0]["text"].as_str(), lines.get("structuredContent")),
            (Some("{\"success\":1}\n{\"b\":2}\n"), None)
        );
        let declared = FinishedScript {
            output_schema: Some(&schema),
            ..finished(ScriptEnd::Exited(0), b"{\"success\":1} {\"b\":2}")
        };
        assert_eq!(judge(&declared).unwrap()["structuredContent"], json!({"success": 1}));
        let text = judge(&finished(ScriptEnd::Exited(0), b"42 is the answer")).unwrap();
        assert_eq!(text["content"][0]["text"], "42 is the answer");
    }

    #[test]
    fn json_that_is_no_object_is_only_text() {
        for text in ["42", "[1,2]", "true"] {
            let result = judge(&finished(ScriptEnd::Exited(0), text.as_bytes())).unwrap();
            assert_eq!(result["content"][0]["text"], text);
            assert!(result.get("structuredContent").is_none());
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let result = judge(&finished(ScriptEnd::Exited(0), b"a\xff\xfeb")).unwrap();
        assert_eq!(result["content"][0]["text"], "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn an_error_of_the_protocol_is_what_the_tool_asked_for() {
        // S0.9
        let own = FinishedScript {
            error: br#"{"code":-32602,"message":"name is required","data":null}"#,
            ..finished(ScriptEnd::Exited(1), b"noise")
        };
        assert_eq!(judge(&own), Err(ScriptFault::new(-32602, "name is required")));
        let printed =
            judge(&finished(ScriptEnd::Exited(1), br#"{"code":-5,"message":"m","data":{"x":1}}"#)).unwrap_err();
        assert_eq!((printed.code, printed.data), (-5, Some(json!({"x": 1}))));
        let whole = judge(&finished(ScriptEnd::Exited(1), br#"{"content":[],"isError":false}"#)).unwrap();
        assert_eq!((&whole["isError"], &whole["_meta"]["exitCode"]), (&json!(true), &json!(1)));
    }

    // edges F10
    #[test]
    fn a_script_that_fails_gives_a_failed_result_with_exit_code_and_stderr() {
        let texts = |result: &Value| -> Vec<String> {
            let blocks = result["content"].as_array().unwrap();
            blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
        };
        let heard =
            judge(&FinishedScript { stderr: "no such file\nat line 3\n", ..finished(ScriptEnd::Exited(3), b"half") })
                .unwrap();
        assert_eq!(texts(&heard), ["Tool failed with exit code 3:\nno such file\nat line 3", "half"]);
        assert_eq!((&heard["isError"], &heard["_meta"]["exitCode"]), (&json!(true), &json!(3)));
        assert_eq!(heard["_meta"]["stderr"], "no such file\nat line 3\n");
        let silent = judge(&finished(ScriptEnd::Exited(7), b"")).unwrap();
        assert_eq!(texts(&silent), ["Tool failed with exit code 7"]);
        let odd = judge(&FinishedScript { error: b"it broke", ..finished(ScriptEnd::Exited(1), b"noise") }).unwrap();
        assert_eq!((texts(&odd), &odd["isError"]), (vec!["it broke".to_owned()], &json!(true)));
    }

    #[test]
    fn a_timeout_says_which_and_what_to_do() {
        // S0.9
        let bounds = TimeBounds { extends: true, ..BOUNDS };
        let late = FinishedScript {
            bounds,
            hint: Some("try less"),
            ..finished(ScriptEnd::TimedOut(PassedBound::Idle), b"part")
        };
        let result = judge(&late).unwrap();
        let error = &result["structuredContent"]["error"];
        assert_eq!(
            (&error["type"], &error["reason"], &error["timeoutSecs"]),
            (&json!("timeout"), &json!("idle"), &json!(30))
        );
        assert_eq!((&error["maxTimeoutSecs"], &error["hint"]), (&json!(600), &json!("try less")));
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().ends_with("Suggestion: try less"));
    }

    #[test]
    fn a_declared_output_is_checked() {
        // S0.9
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}});
        let check = |stdout: &'static str| {
            judge(&FinishedScript { output_schema: Some(&schema), ..finished(ScriptEnd::Exited(0), stdout.as_bytes()) })
        };
        assert!(check(r#"{"n": 1}"#).is_ok());
        assert!(check(r#"{"content":[],"isError":true}"#).is_ok());
        for bad in
            ["", "text", r#"{"s": "x"}"#, r#"{"n": 1.5}"#, r#"{"n": 1, "s": 2}"#, r#"{"content":[],"isError":false}"#]
        {
            assert_eq!(check(bad).unwrap_err().code, -32603, "{bad}");
        }
    }

    #[test]
    fn limits_and_cancellation_are_errors() {
        assert_eq!(judge(&finished(ScriptEnd::Cancelled, b"")).unwrap_err().code, CANCELLED);
        for end in [ScriptEnd::TooMuchOutput(10), ScriptEnd::TooMuchStderr(10), ScriptEnd::TooManyProcesses(10)] {
            let fault = judge(&finished(end, b"")).unwrap_err();
            assert!(fault.code == -32603 && fault.message.contains("10"), "{fault}");
        }
    }
}
