//! Schemas without references: what one refers to takes its place.
//!
//! What refers to itself is cut: there anything is accepted. A cut may only ever widen, so whatever would turn it round (`not`, `if`, a
//! `oneOf` of which now two may hold) goes with it.

use super::json_tree::JsonTree;

/// More objects than this are no schema that a model could read: what is left is cut.
const MOST_NODES: usize = 10_000;
/// The same of their memory: a long list of words may be referred to very often.
const MOST_WEIGHT: usize = 2 << 20;
/// References in references.
const MOST_DEPTH: usize = 24;
/// Schemas in schemas, with those that took the place of references: twice as many levels of JSON, of which common readers take 128.
const MOST_NESTING: usize = 48;

/// Words of a schema that only describe.
const ANNOTATIONS: [&str; 11] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$id",
    "$anchor",
];

/// How the value of a word is made of schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subschemas {
    One,
    /// One, or a list of them.
    OneOrList,
    List,
    ByName,
}

/// The words whose values are schemas.
fn subschemas(word: &str) -> Option<Subschemas> {
    Some(match word {
        "additionalProperties"
        | "propertyNames"
        | "additionalItems"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "contentSchema" => Subschemas::One,
        "items" => Subschemas::OneOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Subschemas::List,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => {
            Subschemas::ByName
        }
        _ => return None,
    })
}

/// The schema without references, if it has any or has definitions for them.
pub(super) fn inline(root: &JsonTree) -> Option<JsonTree> {
    if !any_schema(root, &mut |schema| REFERENCES.iter().chain(&DEFINITIONS).any(|word| schema.get(word).is_some())) {
        return None;
    }
    let mut inliner =
        Inliner { root, ignores_siblings: is_old_draft(root), under_way: Vec::new(), nodes: 0, weight: 0, nesting: 0 };
    Some(inliner.schema(root, true).tree)
}

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Drafts in which nothing counts that stands beside a reference.
pub(super) fn is_old_draft(root: &JsonTree) -> bool {
    let draft = root.get("$schema").and_then(JsonTree::as_text);
    draft.is_some_and(|draft| ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old)))
}

/// Whether some schema in this one fits.
pub(super) fn any_schema(schema: &JsonTree, fits: &mut impl FnMut(&JsonTree) -> bool) -> bool {
    if !matches!(schema, JsonTree::Object(_)) {
        return false;
    }
    fits(schema)
        || schema.members().iter().any(|(word, value)| match subschemas(word) {
            None => false,
            Some(Subschemas::One | Subschemas::OneOrList | Subschemas::List) => {
                any_schema(value, fits) || value.items().iter().any(|item| any_schema(item, fits))
            }
            Some(Subschemas::ByName) => value.members().iter().any(|(_, member)| any_schema(member, fits)),
        })
}

/// What a reference within the same schema leads to.
pub(super) fn target<'r>(root: &'r JsonTree, reference: &str) -> Option<&'r JsonTree> {
    let pointer = percent_decoded(reference.strip_prefix('#')?)?;
    // `#name` is an anchor, and nobody uses them in tools.
    root.at_pointer(&pointer)
}

fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            out.push(*first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(out).ok()
}

struct Inliner<'r> {
    root: &'r JsonTree,
    /// Whether nothing counts that stands beside a reference.
    ignores_siblings: bool,
    /// The references that are being replaced.
    under_way: Vec<String>,
    nodes: usize,
    weight: usize,
    nesting: usize,
}

/// A schema without references.
struct Inlined {
    tree: JsonTree,
    /// Whether it accepts just what the one before did, and not more.
    exact: bool,
}

impl Inliner<'_> {
    fn schema(&mut self, schema: &JsonTree, is_root: bool) -> Inlined {
        self.nesting += 1;
        let inlined = self.nested(schema, is_root);
        self.nesting -= 1;
        inlined
    }

    fn nested(&mut self, schema: &JsonTree, is_root: bool) -> Inlined {
        let JsonTree::Object(members) = schema else { return Inlined { tree: schema.clone(), exact: true } };
        self.nodes += 1;
        // References in a schema with a name of its own mean that schema, and not this one.
        let is_foreign = !is_root && schema.get("$id").is_some() && has_references(schema);
        let is_too_much = self.nodes > MOST_NODES || self.weight > MOST_WEIGHT || self.nesting > MOST_NESTING;
        if is_too_much && !is_root {
            return Inlined { tree: JsonTree::empty(), exact: false };
        }
        if is_foreign {
            return Inlined { tree: annotations_of(members), exact: false };
        }
        let reference = schema.get("$ref");
        let mut exact = true;
        let has_any_of = schema.get("anyOf").is_some();
        let mut inlined = Vec::with_capacity(members.len());
        for (word, value) in members {
            if DEFINITIONS.contains(&word.as_str()) || word == "$ref" {
                continue;
            }
            // What these mean depends on who leads there, so nothing can take their place.
            if REFERENCES.contains(&word.as_str()) {
                exact = false;
                continue;
            }
            if reference.is_some() && self.ignores_siblings && !ANNOTATIONS.contains(&word.as_str()) {
                continue;
            }
            exact &= match self.member(word, value) {
                Ok(tree) => {
                    inlined.push((word.clone(), tree));
                    true
                }
                Err(wider) => {
                    // Of wider branches two may hold.
                    let was_one_of = word == "oneOf";
                    let word = if was_one_of { "anyOf" } else { word.as_str() };
                    let is_turned_round = ["not", "if", "then", "else", "contains"].contains(&word);
                    // Accepting more there would accept less here; and one word can not stand twice.
                    if !(is_turned_round || was_one_of && has_any_of) {
                        inlined.push((word.to_owned(), wider));
                    }
                    false
                }
            };
        }
        if !exact {
            // They ask what their siblings have looked at, which a cut does not say any more.
            inlined.retain(|(word, _)| !word.starts_with("unevaluated"));
        }
        match reference {
            None => Inlined { tree: JsonTree::Object(inlined), exact },
            Some(reference) => {
                let target = self.referred(reference);
                let exact = exact && target.exact;
                if !exact {
                    // The target may be cut though everything beside it is as it was.
                    inlined.retain(|(word, _)| !word.starts_with("unevaluated"));
                }
                Inlined { tree: joined(target.tree, inlined), exact }
            }
        }
    }

    /// The value of a word without references; the error is one that accepts more.
    fn member(&mut self, word: &str, value: &JsonTree) -> Result<JsonTree, JsonTree> {
        let mut exact = true;
        let mut each = |schema: &JsonTree| {
            let inlined = self.schema(schema, false);
            exact &= inlined.exact;
            inlined.tree
        };
        let tree = match (subschemas(word), value) {
            (Some(Subschemas::ByName), JsonTree::Object(members)) => {
                JsonTree::Object(members.iter().map(|(name, member)| (name.clone(), each(member))).collect())
            }
            (Some(Subschemas::List | Subschemas::OneOrList), JsonTree::List(items)) => {
                JsonTree::List(items.iter().map(&mut each).collect())
            }
            (Some(Subschemas::One | Subschemas::OneOrList), value) => each(value),
            // No schema, also where one should be: left alone, as every reader would.
            _ => {
                self.weight += value.weight();
                value.clone()
            }
        };
        if exact { Ok(tree) } else { Err(tree) }
    }

    fn referred(&mut self, reference: &JsonTree) -> Inlined {
        let cut = Inlined { tree: JsonTree::empty(), exact: false };
        let Some(reference) = reference.as_text() else { return cut };
        if self.under_way.contains(&reference) || self.under_way.len() >= MOST_DEPTH {
            return cut;
        }
        let Some(target) = target(self.root, &reference) else { return cut };
        // It may be what is being looked at from its beginning.
        if std::ptr::eq(target, self.root) {
            return cut;
        }
        self.under_way.push(reference);
        let inlined = self.schema(target, false);
        self.under_way.pop();
        inlined
    }
}

fn has_references(schema: &JsonTree) -> bool {
    any_schema(schema, &mut |schema| REFERENCES.iter().any(|word| schema.get(word).is_some()))
}

fn annotations_of(members: &[(String, JsonTree)]) -> JsonTree {
    let words = members.iter().filter(|(word, _)| ANNOTATIONS.contains(&word.as_str()));
    JsonTree::Object(words.cloned().collect())
}

/// A schema that says what both say.
fn joined(target: JsonTree, mut beside: Vec<(String, JsonTree)>) -> JsonTree {
    let is_same_type = |word: &str, value: &JsonTree| word == "type" && target.get("type") == Some(value);
    let only_describes =
        beside.iter().all(|(word, value)| ANNOTATIONS.contains(&word.as_str()) || is_same_type(word, value));
    match target {
        JsonTree::Object(members) if only_describes => {
            // What is said where it is used is nearer to the point.
            let rest = members.into_iter().filter(|(word, _)| !beside.iter().any(|(known, _)| known == word));
            let rest: Vec<(String, JsonTree)> = rest.collect();
            beside.extend(rest);
            JsonTree::Object(beside)
        }
        JsonTree::Object(members) if members.is_empty() => JsonTree::Object(beside),
        target => {
            match beside.iter_mut().find(|(word, _)| word == "allOf") {
                Some((_, JsonTree::List(all))) => all.push(target),
                _ => beside.push(("allOf".to_owned(), JsonTree::List(vec![target]))),
            }
            JsonTree::Object(beside)
        }
    }
}
