//! Who answers: the introduction a client gets, and instructions put together from many servers.

use serde_json::Value;

use crate::Revision;

/// How much instruction text one server may contribute, in bytes.
const PER_SERVER: usize = 8 << 10;

/// The gateway's own `serverInfo` for a client of this revision.
pub fn gateway_info(version: &str, revision: Revision) -> Value {
    let mut info = serde_json::json!({ "name": "tidings", "version": version });
    if revision.has_titles() {
        info["title"] = "Tidings".into();
    }
    info
}

/// A server's own `serverInfo`, without the fields that a revision does not know.
pub fn server_info(info: &Value, revision: Revision) -> Value {
    let mut info = info.clone();
    if let Some(members) = info.as_object_mut() {
        if !revision.has_titles() {
            members.remove("title");
        }
        if !revision.has_icons() {
            for name in ["icons", "description", "websiteUrl"] {
                members.remove(name);
            }
        }
    }
    info
}

/// The instructions of several servers under one heading each, in order.
pub fn merge_instructions<'a>(servers: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Option<String> {
    let mut out = String::new();
    for (server, prefix, text) in servers {
        if text.trim().is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(&format!("## {server} (names begin with {prefix}__)\n\n"));
        let cut = text.floor_char_boundary(PER_SERVER.min(text.len()));
        out.push_str(text[..cut].trim_end());
        if cut < text.len() {
            out.push_str(" […]");
        }
    }
    (!out.is_empty()).then_some(out)
}
