//! Lists, page by page, with definitions byte for byte.

use super::answer::{RpcError, ScriptedAnswer};
use super::call::ScriptedCall;
use super::catalogue::ScriptedEntry;

const CURSOR: &str = "from-";

/// The page that the call's cursor asks for.
pub(crate) fn page(call: &ScriptedCall, member: &str, entries: &[ScriptedEntry]) -> ScriptedAnswer {
    let cursor = call.received.param(&["cursor"]);
    let start = match &cursor {
        serde_json::Value::Null => Some(0),
        cursor => cursor.as_str().and_then(|c| c.strip_prefix(CURSOR)).and_then(|c| c.parse::<usize>().ok()),
    };
    // A list that became shorter since makes an older cursor invalid.
    let Some(start) = start.filter(|start| *start <= entries.len()) else {
        return RpcError::new(-32602, "Invalid cursor").into();
    };
    let end = start.saturating_add(call.core.script.page_size).min(entries.len());
    let items: Vec<&str> = entries[start..end].iter().map(|entry| entry.definition.as_str()).collect();
    let mut result = format!("{{\"{member}\":[{}]", items.join(","));
    if end < entries.len() {
        result.push_str(&format!(",\"nextCursor\":\"{CURSOR}{end}\""));
    }
    if call.is_modern() {
        result.push_str(r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#);
    }
    result.push('}');
    ScriptedAnswer::Result(result.into())
}
