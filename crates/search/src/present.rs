//! A tool as results show it: what it is called, where it comes from, and how to call it.

use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_proto::{ListKind, LocalName};
use tidings_wire::{ByteSpan, encode_string, get, is_object, string_at};

/// One tool as a JSON object: `name` as clients call it, `server`, `title`, `description`, `inputSchema`, `outputSchema`,
/// `annotations`, and the `score` if there is one. What the server wrote is copied, not read and written again. `None` when
/// the snapshot has no such tool, or it is hidden by another of its name.
#[must_use]
pub fn present(
    snapshot: &CatalogueSnapshot,
    server: ServerId,
    local: &LocalName,
    score: Option<f32>,
) -> Option<String> {
    let offer = snapshot.offer(server)?;
    let raw = &offer.list(ListKind::Tools).get(local)?.raw;
    let public = snapshot.public_name(ListKind::Tools, server, local)?;
    let member = |name: &str| get(raw, ByteSpan::new(0, raw.len()), name);
    let copied = |at: ByteSpan| std::str::from_utf8(at.of(raw)).ok();
    let text = |name: &str| member(name).and_then(|at| string_at(raw, at));
    let object = |name: &str| member(name).filter(|at| is_object(raw, *at)).and_then(copied);

    let mut out = format!(r#"{{"name":{},"server":{}"#, encode_string(public.as_str()), encode_string(&offer.name));
    if let Some(title) = text("title") {
        out.push_str(&format!(r#","title":{}"#, encode_string(&title)));
    }
    out.push_str(&format!(r#","description":{}"#, encode_string(&text("description").unwrap_or_default())));
    // The output schema of `retrieve_tools` promises an object here, whatever the server sent.
    out.push_str(&format!(r#","inputSchema":{}"#, object("inputSchema").unwrap_or(r#"{"type":"object"}"#)));
    if let Some(schema) = member("outputSchema").and_then(copied) {
        out.push_str(&format!(r#","outputSchema":{schema}"#));
    }
    if let Some(annotations) = object("annotations") {
        out.push_str(&format!(r#","annotations":{annotations}"#));
    }
    if let Some(score) = score {
        out.push_str(&format!(r#","score":{score:.3}"#));
    }
    out.push('}');
    Some(out)
}

/// The object `{"tools": […]}` of tools that [`present`] has written, in their order.
#[must_use]
pub fn present_all(tools: impl IntoIterator<Item = String>) -> String {
    let tools: Vec<String> = tools.into_iter().collect();
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}
