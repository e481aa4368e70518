//! One tool as a client with a profile is shown it. What was changed stands in its `_meta`; the author's words stay as they are.

use bytes::Bytes;
use tidings_wire::{ByteSpan, ObjectEdit, Patch, encode_string, get, is_object, string_at};

use super::SchemaRules;
use super::inline_refs::inline;
use super::json_tree::JsonTree;
use super::top_combinators::{COMBINATORS, widen};

/// Where a tool says what of it was changed for this client.
pub const VIEW_META: &str = "dev.tidings/view";
/// A rule that is longer than this is not put into a description.
const MOST_RULE: usize = 2_000;
/// A schema that is longer than this is no schema that a model could read. It is not looked into, but widened as a whole.
const MOST_SCHEMA: usize = 128 << 10;

/// A tool that is to be shaped, rendered and under the name that is shown.
pub(crate) struct ShapedTool<'a> {
    pub(crate) rendered: Bytes,
    /// Its whole name, where the one that is shown is shorter.
    pub(crate) full_name: Option<&'a str>,
    pub(crate) rules: SchemaRules,
    /// Whether clients of its revision know `_meta` in a tool.
    pub(crate) has_meta: bool,
}

/// Whether rules would change something of a tool, or may: what is only mentioned is looked at again when it is shown.
pub(crate) fn touches(rules: SchemaRules, raw: &[u8]) -> bool {
    let whole = ByteSpan::new(0, raw.len());
    let input = || get(raw, whole, "inputSchema");
    let mentions = |word: &[u8]| raw.windows(word.len()).any(|part| part == word);
    (rules.no_top_combinators && input().is_some_and(|at| COMBINATORS.iter().any(|word| get(raw, at, word).is_some())))
        // All other words of references begin so. One that is none, as `$schema`, costs a rendering and no more.
        || (rules.inline_refs && (mentions(br#""$"#) || mentions(br#""definitions""#)))
        || (rules.object_output && get(raw, whole, "outputSchema").is_some_and(|at| !is_object_schema(raw, at)))
}

fn is_object_schema(raw: &[u8], schema: ByteSpan) -> bool {
    get(raw, schema, "type").and_then(|at| string_at(raw, at)).is_some_and(|kind| kind == "object")
}

impl ShapedTool<'_> {
    /// The tool as it is shown. What need not change shares its bytes.
    pub(crate) fn shaped(self) -> Bytes {
        let raw = &self.rendered;
        let mut edit = ObjectEdit::new(raw, ByteSpan::new(0, raw.len()));
        let mut notes: Vec<String> = Vec::new();
        if let Some(full) = self.full_name {
            notes.push(format!(r#""fullName":{}"#, encode_string(full)));
        }
        let done = self.input_schema(&mut edit);
        if !done.is_empty() {
            notes.push(format!(r#""inputSchema":["{}"]"#, done.join(r#"",""#)));
        }
        if let Some(done) = self.output_schema(&mut edit) {
            notes.push(format!(r#""outputSchema":["{done}"]"#));
        }
        if notes.is_empty() {
            return self.rendered;
        }
        let mut patch = Patch::new();
        if self.has_meta {
            let note = format!("{{{}}}", notes.join(","));
            match edit.get("_meta") {
                None => {
                    edit.set("_meta", format!(r#"{{"{VIEW_META}":{note}}}"#));
                }
                Some(meta) if is_object(raw, meta) => {
                    let mut inner = ObjectEdit::new(raw, meta);
                    inner.set(VIEW_META, note);
                    inner.finish(&mut patch);
                }
                // Not for us to say what is meant by it.
                Some(_) => {}
            }
        }
        edit.finish(&mut patch);
        patch.apply(raw)
    }

    /// Whether something of a long schema would have to change.
    fn changes_long(&self, schema: ByteSpan) -> bool {
        let text = schema.of(&self.rendered);
        let mentions = |word: &str| text.windows(word.len()).any(|part| part == word.as_bytes());
        let refers = || [r#"ref":"#, r#"Ref":"#, r#""$defs":"#, r#""definitions":"#].into_iter().any(mentions);
        (self.rules.no_top_combinators && COMBINATORS.iter().any(|word| get(&self.rendered, schema, word).is_some()))
            || (self.rules.inline_refs && refers())
    }

    /// Changes the input schema, and tells how.
    fn input_schema(&self, edit: &mut ObjectEdit<'_>) -> Vec<&'static str> {
        let mut done = Vec::new();
        let raw = &self.rendered;
        let Some(at) = edit.get("inputSchema").filter(|_| self.rules.inline_refs || self.rules.no_top_combinators)
        else {
            return done;
        };
        if at.of(raw).len() > MOST_SCHEMA {
            if self.changes_long(at) {
                edit.set("inputSchema", wide_object(raw, at));
                done.push("cut");
            }
            return done;
        }
        let Some(mut schema) = JsonTree::read(raw, at) else { return done };
        if self.rules.inline_refs
            && let Some(inlined) = inline(&schema)
        {
            schema = inlined;
            done.push("inlined");
        }
        if self.rules.no_top_combinators
            && let Some(widened) = widen(&schema)
        {
            schema = widened.schema;
            done.push("widened");
            let description = edit.get("description").and_then(|at| string_at(raw, at));
            let text = [description.as_deref().unwrap_or_default(), &rule_text(&widened.rule)];
            let text = text.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
            edit.set("description", encode_string(&text));
        }
        if !done.is_empty() {
            let mut out = Vec::new();
            schema.write(&mut out);
            edit.set("inputSchema", out);
        }
        done
    }

    /// Changes or leaves out the output schema, and tells which.
    fn output_schema(&self, edit: &mut ObjectEdit<'_>) -> Option<&'static str> {
        let raw = &self.rendered;
        let at = edit.get("outputSchema")?;
        if at.of(raw).len() > MOST_SCHEMA && (self.rules.inline_refs || self.rules.object_output) {
            edit.remove("outputSchema");
            return Some("dropped");
        }
        let inlined = || inline(&JsonTree::read(raw, at)?);
        let inlined = self.rules.inline_refs.then(inlined).flatten();
        // A reference at its root may lead to an object.
        let is_object = match &inlined {
            Some(schema) => schema.get("type").and_then(JsonTree::as_text).is_some_and(|kind| kind == "object"),
            None => is_object_schema(raw, at),
        };
        if self.rules.object_output && !is_object {
            edit.remove("outputSchema");
            return Some("dropped");
        }
        let mut out = Vec::new();
        inlined?.write(&mut out);
        edit.set("outputSchema", out);
        Some("inlined")
    }
}

/// Any object that has what is required.
fn wide_object(raw: &[u8], schema: ByteSpan) -> Vec<u8> {
    let mut out = br#"{"type":"object""#.to_vec();
    if let Some(required) = get(raw, schema, "required") {
        out.extend_from_slice(br#","required":"#);
        out.extend_from_slice(required.of(raw));
    }
    out.push(b'}');
    out
}

/// What a widened schema does not say, for the model.
fn rule_text(rule: &JsonTree) -> String {
    let mut text = Vec::new();
    rule.write(&mut text);
    match String::from_utf8(text).ok().filter(|text| text.len() <= MOST_RULE) {
        Some(rule) => format!("The arguments must also fit this JSON Schema: {rule}"),
        None => "The arguments must also fit a rule that is too long to be shown here; the tool says what it misses."
            .to_owned(),
    }
}
