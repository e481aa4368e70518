//! The hint that a client's list of tools is old, on the result of one of its calls: in `_meta`, and as a last text that says whose it is.

use bytes::Bytes;
use tidings_wire::{ByteSpan, ObjectEdit, Patch, elements, encode_string, get, is_object, string_at};

use crate::meta;

/// The answer to `tools/call` with the hint; `None` where it may have none: it is an error or no complete result, or it has structured
/// content, which a client may check against what the text says.
pub fn with_hint(answer: &Bytes, commit: u64) -> Option<Bytes> {
    let result = get(answer, ByteSpan::new(0, answer.len()), "result").filter(|at| is_object(answer, *at))?;
    // Whatever is no plain no counts as an error, so that the result stays what its server said.
    let is_error = get(answer, result, "isError").is_some_and(|at| at.of(answer) != b"false");
    let is_structured = get(answer, result, "structuredContent").is_some();
    let kind = get(answer, result, "resultType").and_then(|at| string_at(answer, at));
    if is_error || is_structured || kind.is_some_and(|kind| kind != "complete") {
        return None;
    }
    let content = get(answer, result, "content").filter(|at| at.of(answer).first() == Some(&b'['))?;
    let text = format!(
        "[From the Tidings gateway, not from the tool] The list of tools changed after it was last read here (change {commit}): tools may \
         have come, gone or changed. It is current again when the client asks for tools/list, or in a new session."
    );
    let comma = if elements(answer, content).next().is_some() { "," } else { "" };
    let block = format!(r#"{comma}{{"type":"text","text":{}}}"#, encode_string(&text));
    let stale = format!(r#"{{"lists":["tools"],"change":{commit}}}"#);
    let mut patch = Patch::new();
    patch.insert(content.end - 1, block);
    match get(answer, result, "_meta") {
        Some(at) if is_object(answer, at) => {
            let mut edit = ObjectEdit::new(answer, at);
            edit.set(meta::STALE, stale);
            edit.finish(&mut patch);
        }
        // Nobody knows what the server means by it.
        Some(_) => return None,
        None => {
            let mut edit = ObjectEdit::new(answer, result);
            edit.set("_meta", format!(r#"{{"{}":{stale}}}"#, meta::STALE));
            edit.finish(&mut patch);
        }
    }
    Some(patch.apply(answer))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hinted(result: &str) -> Option<Value> {
        let answer = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,{result}}}"#));
        with_hint(&answer, 77).map(|answer| serde_json::from_slice(&answer).unwrap_or_default())
    }

    // reach 8.3
    #[test]
    fn a_result_is_followed_by_a_text_that_says_whose_it_is() {
        for (result, before) in [
            (r#""result":{"content":[ ]}"#, 0),
            (r#""result":{"content":[{"type":"text","text":"[1]"}],"isError":false}"#, 1),
            (r#""result":{"resultType":"complete","_meta":{"a":1},"content":[{"type":"text","text":"x"} ] }"#, 1),
        ] {
            let answer = hinted(result).unwrap_or_else(|| panic!("{result}"));
            let content = answer["result"]["content"].as_array().cloned().unwrap_or_default();
            assert_eq!(content.len(), before + 1, "{answer}");
            let text = content[before]["text"].as_str().unwrap_or_default();
            assert!(text.starts_with("[From the Tidings gateway, not from the tool]") && text.contains("change 77"));
            assert_eq!(answer["result"]["_meta"]["dev.tidings/stale"], json!({"lists":["tools"],"change":77}));
        }
    }

    // reach 8.3
    #[test]
    fn errors_and_structured_content_are_left_alone() {
        for result in [
            r#""error":{"code":1,"message":"x"}"#,
            r#""result":{"content":[],"isError":true}"#,
            r#""result":{"content":[],"structuredContent":{}}"#,
            r#""result":{"resultType":"input_required","content":[]}"#,
            r#""result":{"task":{"taskId":"x"}}"#,
            r#""result":{"content":"x"}"#,
            r#""result":{"content":[],"_meta":3}"#,
            r#""result":[]"#,
        ] {
            assert_eq!(hinted(result), None, "{result}");
        }
    }
}
