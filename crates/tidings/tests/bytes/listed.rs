//! Definitions in lists: as the server wrote them, but for their names and URIs.

use serde_json::json;
use tidings_testkit::{Gateway, ScriptedEntry, Server, V2025_11_25};

const TOOL: &str = r#"{ "inputSchema":{"type":"object" , "default":1e400,"x":9007199254740993}, "name":@, "x-a":"\u00e9", "x-a":[ 1 ] }"#;
const RESOURCE: &str = r#"{"size":9007199254740993 ,"uri":@, "name":"n\/", "x":{"uri":"file:///inner"}}"#;
const PROMPT: &str = r#"{"arguments":[ {"name":"a\u0062"} ],"name" :@}"#;

fn named(text: &str, key: &str) -> String {
    text.replace('@', &format!("\"{key}\""))
}

async fn odd(name: &str) -> Server {
    let entry = |text: &str, key: &str| ScriptedEntry::raw(&named(text, key), |call| async move { call.ok_text("") });
    Server::builder(name)
        .entry("tools", entry(TOOL, "t"))
        .entry("resources", entry(RESOURCE, "file:///r"))
        .entry("prompts", entry(PROMPT, "p"))
        .stdio()
        .await
}

// bridging A3, S2.7
#[tokio::test]
async fn definitions_are_listed_byte_for_byte_but_for_their_keys() {
    let (one, two) = (odd("one").await, odd("two").await);
    let alone = Gateway::builder().server("one", &one).serve().await;
    let both = Gateway::builder().server("one", &one).server("two", &two).serve().await;
    for (gateway, prefix) in [(&alone, ""), (&both, "two")] {
        let client = gateway.client().revision(V2025_11_25).connect().await;
        let (name, uri) = if prefix.is_empty() {
            (String::new(), String::new())
        } else {
            (format!("{prefix}__"), format!("{prefix}+"))
        };
        for (method, text, key) in [
            ("tools/list", TOOL, format!("{name}t")),
            ("resources/list", RESOURCE, format!("{uri}file:///r")),
            ("prompts/list", PROMPT, format!("{name}p")),
        ] {
            let page = client.request(method, json!({})).await;
            let listed = page.result_raw();
            assert!(listed.contains(&named(text, &key)), "{method}: {listed}\nshould hold {}", named(text, &key));
        }
    }
}
