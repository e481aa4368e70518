//! Items of the four lists as one client sees them.

use bytes::Bytes;
use tidings_wire::{ByteSpan, ObjectEdit, Patch, elements, encode_string, get, is_object, string_at};

use crate::{FieldView, ListKind, Revision, UriMap};

/// Everything that decides how an item looks, apart from the item.
#[derive(Clone, Copy, Debug)]
pub struct ItemView<'a> {
    /// The list that the item stands in.
    pub kind: ListKind,
    /// The client's revision, which decides which members the item keeps.
    pub revision: Revision,
    /// Whether members that the revision does not define are taken out.
    pub view: FieldView,
    /// How this server's URIs appear.
    pub uris: &'a UriMap,
    /// Whether the server may make a task of any call, in the words of the modern extension: there the tools do not say so.
    pub makes_tasks: bool,
}

impl ItemView<'_> {
    /// Renders an item under its public key. Bytes that need no change are shared with the original.
    pub fn render(&self, item: &Bytes, public_key: &str) -> Bytes {
        let whole = ByteSpan::new(0, item.len());
        let mut patch = Patch::new();
        let mut edit = ObjectEdit::new(item, whole);
        let current = edit.get(self.kind.key()).and_then(|at| string_at(item, at));
        // An edit copies the item; where the name stays there is nothing to copy for.
        if current.as_deref() != Some(public_key) {
            edit.set(self.kind.key(), encode_string(public_key));
        }
        self.strip(item, &mut edit, &mut patch);
        self.map_ui_resource(item, &mut patch);
        edit.finish(&mut patch);
        patch.apply(item)
    }

    fn hides(&self, since: Revision) -> bool {
        self.view == FieldView::Strict && self.revision < since
    }

    fn strip(&self, item: &[u8], edit: &mut ObjectEdit<'_>, patch: &mut Patch) {
        if self.hides(Revision::V2025_11_25) {
            edit.remove("icons");
        }
        // Tasks were part of one revision alone.
        if self.view == FieldView::Strict && !self.revision.has_execution() {
            edit.remove("execution");
        }
        // A tool of the one revision with tasks says whether it can be one; without a word it can not.
        let may_be_task = self.makes_tasks && self.kind == ListKind::Tools && self.revision.has_execution();
        if may_be_task && edit.get("execution").is_none() {
            edit.set("execution", r#"{"taskSupport":"optional"}"#);
        }
        // Older clients validate results against the schema, and know only objects.
        if self.hides(Revision::V2026_07_28) && edit.get("outputSchema").is_some_and(|at| !is_object_schema(item, at)) {
            edit.remove("outputSchema");
        }
        if self.hides(Revision::V2025_06_18) {
            self.strip_for_early(item, edit, patch);
        }
    }

    fn strip_for_early(&self, item: &[u8], edit: &mut ObjectEdit<'_>, patch: &mut Patch) {
        // Copied before it is removed: it may have to move into the annotations below.
        let title = edit.get("title").map(|at| Bytes::copy_from_slice(at.of(item)));
        // Both came with 2025-06-18.
        edit.remove("title").remove("outputSchema");
        if self.kind == ListKind::Prompts {
            for argument in edit.get("arguments").into_iter().flat_map(|at| elements(item, at)) {
                let mut inner = ObjectEdit::new(item, argument);
                inner.remove("title");
                inner.finish(patch);
            }
        }
        // The annotations of resources are older than those of tools.
        if self.hides(Revision::V2025_03_26) && self.kind == ListKind::Tools {
            edit.remove("annotations");
            return;
        }
        let annotations = edit.get("annotations").filter(|at| is_object(item, *at));
        // 2025-03-26 has a tool's title only inside its annotations.
        let moved = title.filter(|_| self.kind == ListKind::Tools && self.revision.titles_in_annotations());
        match (annotations, moved) {
            (Some(at), moved) => {
                let mut inner = ObjectEdit::new(item, at);
                inner.remove("lastModified");
                if let Some(title) = moved
                    && inner.get("title").is_none()
                {
                    inner.set("title", title);
                }
                inner.finish(patch);
            }
            (None, Some(title)) => {
                edit.set("annotations", [b"{\"title\":", &title[..], b"}"].concat());
            }
            (None, None) => {}
        }
    }

    fn map_ui_resource(&self, item: &[u8], patch: &mut Patch) {
        if self.kind != ListKind::Tools || self.uris.is_transparent() {
            return;
        }
        if let Some(meta) = get(item, ByteSpan::new(0, item.len()), "_meta") {
            self.uris.map_ui_resource(item, meta, patch);
        }
    }
}

/// Before 2026-07-28 an output schema describes an object.
fn is_object_schema(bytes: &[u8], schema: ByteSpan) -> bool {
    tidings_wire::get(bytes, schema, "type").and_then(|at| string_at(bytes, at)).is_some_and(|t| t == "object")
}
