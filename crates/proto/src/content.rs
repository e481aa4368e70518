//! Content blocks as one client sees them: URIs mapped, and, for old clients, only blocks and fields they know.

use tidings_wire::{ByteSpan, ObjectEdit, Patch, elements, encode_string, get, is_object, string_at};

use crate::{FieldView, Revision, UriMap};

/// Who reads the content: what a revision does not define is taken out of it.
#[derive(Clone, Copy, Debug)]
pub struct ContentView<'a> {
    /// How this server's URIs appear.
    pub uris: &'a UriMap,
    /// The client's revision, which decides which blocks and members it is shown.
    pub revision: Revision,
    /// Whether members that the revision does not define are taken out.
    pub view: FieldView,
}

impl ContentView<'_> {
    /// Whether the client's revision is too old for something introduced in `since`.
    pub fn hides(&self, since: Revision) -> bool {
        self.view == FieldView::Strict && self.revision < since
    }

    /// Whether no block of this message can need a change.
    pub fn is_identity(&self, message: &[u8]) -> bool {
        // Icons of links are the newest thing that is taken out of a block; whatever is newer has to be asked for here.
        self.uris.leaves_all(message) && !self.hides(Revision::V2025_11_25)
    }

    /// Every block of an array, or the single block where the protocol allows one.
    pub fn blocks(&self, bytes: &[u8], span: ByteSpan, patch: &mut Patch) {
        // Content of a prompt's message is one block, that of a tool's result a list of them.
        if is_object(bytes, span) {
            self.block(bytes, span, patch);
        }
        for block in elements(bytes, span) {
            self.block(bytes, block, patch);
        }
    }

    fn block(&self, bytes: &[u8], span: ByteSpan, patch: &mut Patch) {
        let kind = get(bytes, span, "type").and_then(|at| string_at(bytes, at)).unwrap_or_default();
        match &*kind {
            // 2024-11-05 has no audio; an embedded resource carries the same bytes, and its type says what they are.
            "audio" if self.hides(Revision::V2025_03_26) => return patch.replace(span, audio_as_resource(bytes, span)),
            "resource_link" if self.hides(Revision::V2025_06_18) => {
                // A link can not be expressed there, but a person or a model can read it.
                return patch.replace(span, link_as_text(bytes, span, self.uris));
            }
            "resource_link" => {
                let mut edit = ObjectEdit::new(bytes, span);
                self.map_uri(bytes, &mut edit);
                if self.hides(Revision::V2025_11_25) {
                    edit.remove("icons");
                }
                edit.finish(patch);
            }
            "resource" => {
                if let Some(resource) = get(bytes, span, "resource") {
                    self.uri_member(bytes, resource, patch);
                }
            }
            // Blocks inside blocks, in messages of sampling.
            "tool_result" => {
                if let Some(inner) = get(bytes, span, "content") {
                    self.blocks(bytes, inner, patch);
                }
            }
            _ => {}
        }
        // `lastModified` came with this revision.
        if self.hides(Revision::V2025_06_18)
            && let Some(annotations) = get(bytes, span, "annotations")
        {
            let mut edit = ObjectEdit::new(bytes, annotations);
            edit.remove("lastModified");
            edit.finish(patch);
        }
    }

    /// Maps the `uri` member of the object at `span`.
    pub fn uri_member(&self, bytes: &[u8], span: ByteSpan, patch: &mut Patch) {
        let mut edit = ObjectEdit::new(bytes, span);
        self.map_uri(bytes, &mut edit);
        edit.finish(patch);
    }

    fn map_uri(&self, bytes: &[u8], edit: &mut ObjectEdit<'_>) {
        if *self.uris == UriMap::Transparent {
            return;
        }
        if let Some(uri) = edit.get("uri").and_then(|at| string_at(bytes, at))
            && !self.uris.leaves(&uri)
        {
            edit.set("uri", encode_string(&self.uris.outward(&uri)));
        }
    }
}

fn raw_or<'b>(bytes: &'b [u8], span: ByteSpan, name: &str, default: &'b str) -> &'b str {
    get(bytes, span, name).and_then(|at| std::str::from_utf8(at.of(bytes)).ok()).unwrap_or(default)
}

fn audio_as_resource(bytes: &[u8], span: ByteSpan) -> String {
    format!(
        // A resource needs a URI; this one can not be read, and needs not be.
        r#"{{"type":"resource","resource":{{"uri":"audio:///content","mimeType":{},"blob":{}}}}}"#,
        raw_or(bytes, span, "mimeType", "\"application/octet-stream\""),
        raw_or(bytes, span, "data", "\"\""),
    )
}

fn link_as_text(bytes: &[u8], span: ByteSpan, uris: &UriMap) -> String {
    let text = |name| get(bytes, span, name).and_then(|at| string_at(bytes, at)).unwrap_or_default();
    let label = format!("{}: {}", text("name"), uris.outward(&text("uri")));
    format!(r#"{{"type":"text","text":{}}}"#, encode_string(&label))
}
