//! Suggestions for an argument, a page at a time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tidings_proto::code;

use super::outcome::ScriptFault;
use super::{ScriptCall, ScriptRunner};
use crate::ProjectCompletion;
use crate::policy::check_script;

/// How many suggestions are given unless more are asked for, and how many at most: MCP allows 100 values in an answer.
const USUAL: u64 = 5;
const MOST: u64 = 100;

impl ScriptRunner {
    pub(super) async fn suggest(
        &self,
        completion: &ProjectCompletion,
        params: &Value,
        call: &mut ScriptCall<'_>,
    ) -> Result<Value, ScriptFault> {
        check_script(&self.home, "Completion", &completion.name)?;
        let limit = params["limit"].as_u64().filter(|limit| *limit > 0).unwrap_or(USUAL).min(MOST);
        let arguments = arguments(params);
        // So that a script with a cache of its own has a key for the request.
        let hash = blake3::hash(arguments.to_string().as_bytes()).to_hex().to_string();
        let offset = match params["cursor"].as_str() {
            Some(cursor) => decode(cursor, &completion.name)
                .ok_or_else(|| ScriptFault::new(code::INVALID_PARAMS, "Invalid cursor; ask again without it"))?,
            None => 0,
        };
        let mut variables = self.provider_variables.clone();
        for (name, value) in [
            ("NAME", completion.name.clone()),
            ("ARGS_JSON", arguments.to_string()),
            ("LIMIT", limit.to_string()),
            ("OFFSET", offset.to_string()),
            ("ARGS_HASH", hash),
        ] {
            variables.insert(format!("MCP_COMPLETION_{name}").into(), value.into());
        }
        let within = completion.timeout.unwrap_or(self.home.settings.tool_timeout);
        let ran = self.run_script(&completion.script, &[], variables, within, call).await?;
        if ran.code != 0 {
            return Err(ScriptFault::internal(ran.complaint("Completion provider failed")));
        }
        page(&ran.stdout, limit, offset, &completion.name)
    }
}

/// The request as scripts read it.
fn arguments(params: &Value) -> Value {
    let value = params["argument"]["value"].as_str().unwrap_or_default();
    let object = |value: &Value| if value.is_object() { value.clone() } else { json!({}) };
    json!({
        "query": value,
        "prefix": value,
        "argument": { "name": params["argument"]["name"].as_str().unwrap_or_default(), "value": value },
        "context": { "arguments": object(&params["context"]["arguments"]) },
        "ref": object(&params["ref"]),
    })
}

fn page(output: &[u8], limit: u64, offset: u64, name: &str) -> Result<Value, ScriptFault> {
    // A script that has no suggestion may print nothing at all.
    if output.trim_ascii().is_empty() {
        return Ok(json!({ "completion": { "values": [], "hasMore": false } }));
    }
    let invalid = || {
        ScriptFault::internal(
            "Completion provider emitted invalid JSON: an array of strings, or an object with `suggestions`",
        )
    };
    let printed: Value = serde_json::from_slice(output).map_err(|_| invalid())?;
    let all = if printed.is_array() { &printed } else { &printed["suggestions"] };
    let all = match all {
        Value::Array(all) if all.iter().all(Value::is_string) => all.as_slice(),
        Value::Null if printed.is_object() => &[],
        _ => return Err(invalid()),
    };
    let values = &all[..all.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let own =
        ["nextCursor", "cursor"].iter().find_map(|name| printed.get(name)?.as_str()).filter(|own| !own.is_empty());
    let has_more = printed.get("hasMore") == Some(&Value::Bool(true)) || all.len() > values.len() || own.is_some();
    let mut completion = json!({ "values": values, "hasMore": has_more });
    if has_more {
        // A script that pages by itself says where it goes on.
        let next = printed.get("next").and_then(Value::as_u64).unwrap_or(offset + values.len() as u64);
        completion["nextCursor"] = own.map_or_else(|| encode(name, next), str::to_owned).into();
    }
    Ok(json!({ "completion": completion }))
}

fn encode(name: &str, offset: u64) -> String {
    URL_SAFE_NO_PAD.encode(json!({ "name": name, "offset": offset }).to_string())
}

/// The offset in a cursor of ours; one that a script made itself is handed back to it only in its own arguments.
fn decode(cursor: &str, name: &str) -> Option<u64> {
    let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    // A cursor of another completion would skip what was never shown.
    value["offset"].as_u64().filter(|_| value["name"] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_by_default_and_the_rest_by_cursor() {
        // S0.9
        let first = page(br#"["a","b","c"]"#, 2, 0, "n").unwrap();
        let completion = &first["completion"];
        assert_eq!((&completion["values"], &completion["hasMore"]), (&json!(["a", "b"]), &json!(true)));
        assert_eq!(decode(completion["nextCursor"].as_str().unwrap(), "n"), Some(2));
        assert_eq!(decode(completion["nextCursor"].as_str().unwrap(), "other"), None);
        let last = page(br#"{"suggestions":["c"],"hasMore":false}"#, 2, 2, "n").unwrap();
        assert_eq!(last, json!({"completion": {"values": ["c"], "hasMore": false}}));
        let own = page(br#"{"suggestions":[],"cursor":"mine"}"#, 2, 2, "n").unwrap();
        assert_eq!(own["completion"]["nextCursor"], "mine");
    }

    #[test]
    fn what_is_no_list_of_strings_is_refused() {
        for bad in ["[1]", "{\"suggestions\":\"x\"}", "text", "3"] {
            assert!(page(bad.as_bytes(), 5, 0, "n").is_err(), "{bad}");
        }
        assert_eq!(page(b"\n", 5, 0, "n").unwrap()["completion"]["values"], json!([]));
    }

    #[test]
    fn scripts_find_the_query_under_both_its_names() {
        let params = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "q", "value": "re"}});
        let arguments = arguments(&params);
        assert_eq!((&arguments["query"], &arguments["prefix"]), (&json!("re"), &json!("re")));
        assert_eq!((&arguments["argument"]["name"], &arguments["ref"]["name"]), (&json!("q"), &json!("p")));
    }
}
