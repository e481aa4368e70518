//! Input schemas without `anyOf`, `oneOf` and `allOf` at the top: widened until they need none.
//!
//! The result accepts every object that the original accepts, and has every property that some branch names. Where one branch says
//! nothing of a property that another describes, it may be anything, and so it is shown: the rule itself goes into the description.

use super::inline_refs::{any_schema, inline, is_old_draft, target};
use super::json_tree::JsonTree;

/// The words that go.
pub(super) const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// References that are followed from one branch.
const MOST_HOPS: usize = 8;
/// What of a property's schema says nothing about its value.
const DESCRIPTIONS: [&str; 2] = ["title", "description"];

/// A widened schema.
pub(super) struct WidenedSchema {
    pub(super) schema: JsonTree,
    /// What it does not say any more.
    pub(super) rule: JsonTree,
}

/// The schema without combinators at its top, if it has some.
pub(super) fn widen(root: &JsonTree) -> Option<WidenedSchema> {
    if !COMBINATORS.iter().any(|word| root.get(word).is_some()) {
        return None;
    }
    let rule = root.members().iter().filter(|(word, _)| COMBINATORS.contains(&word.as_str()));
    let rule = JsonTree::Object(rule.cloned().collect());
    // What refers to a part that goes, or to the whole where less would be accepted if that accepts more.
    let inlined = refers_to_top(root).then(|| inline(root)).flatten();
    let branches = TopBranches::of(inlined.as_ref().unwrap_or(root));
    Some(WidenedSchema { schema: branches.widened(), rule })
}

fn refers_to_top(root: &JsonTree) -> bool {
    let reference = |schema: &JsonTree| schema.get("$ref").and_then(JsonTree::as_text);
    let into_branch = |reference: &str| COMBINATORS.iter().any(|word| reference.starts_with(&format!("#/{word}")));
    let turns_round =
        |schema: &JsonTree| ["not", "if", "oneOf", "contains"].iter().any(|word| schema.get(word).is_some());
    let to_whole = any_schema(root, &mut |schema| reference(schema).is_some_and(|to| to == "#"));
    any_schema(root, &mut |schema| reference(schema).is_some_and(|to| into_branch(&to)))
        || (to_whole && any_schema(root, &mut |schema| turns_round(schema)))
}

/// What stands at the top of a schema.
struct TopBranches<'r> {
    root: &'r JsonTree,
    /// Schemas that all hold.
    all: Vec<&'r JsonTree>,
    /// Sets of branches, of each of which one at least holds; a branch is schemas that all hold.
    unions: Vec<Vec<Vec<&'r JsonTree>>>,
}

/// What a set of branches says of a property.
enum UnionSays {
    /// One of these holds.
    One(Vec<JsonTree>),
    /// Some branch lets it be anything.
    Anything(Option<JsonTree>),
}

impl<'r> TopBranches<'r> {
    fn of(root: &'r JsonTree) -> Self {
        let ignores_siblings = is_old_draft(root);
        let conjuncts = |schema: &'r JsonTree| {
            let mut found = Vec::new();
            collect_conjuncts(root, schema, ignores_siblings, MOST_HOPS, &mut found);
            found
        };
        let branches = |word: &str| root.get(word).map(JsonTree::items).unwrap_or_default();
        let all = branches("allOf").iter().flat_map(conjuncts).collect();
        let unions = ["anyOf", "oneOf"].into_iter().filter(|word| root.get(word).is_some());
        let unions = unions.map(|word| {
            // Arguments are an object: what is for something else never holds.
            let holds = |schema: &&JsonTree| {
                !schema.is_plain("false")
                    && schema.get("type").and_then(JsonTree::as_text).is_none_or(|t| t == "object")
            };
            branches(word).iter().filter(holds).map(conjuncts).collect()
        });
        Self { root, all, unions: unions.collect() }
    }

    fn widened(&self) -> JsonTree {
        // Those that look at what others have looked at can not stay without them.
        let goes = |word: &str| COMBINATORS.contains(&word) || word.starts_with("unevaluated");
        let mut out: Vec<(String, JsonTree)> = Vec::new();
        // It may have stood in the branches alone, which go.
        if self.root.get("type").is_none() {
            out.push(("type".to_owned(), JsonTree::string("object")));
        }
        out.extend(self.root.members().iter().filter(|(word, _)| !goes(word)).cloned());
        let properties = self.properties();
        if !properties.is_empty() {
            set(&mut out, "properties", JsonTree::Object(properties));
        }
        let required = self.required();
        if !required.is_empty() {
            set(&mut out, "required", JsonTree::List(required));
        }
        JsonTree::Object(out)
    }

    /// Every property, with a schema that accepts whatever it may be.
    fn properties(&self) -> Vec<(String, JsonTree)> {
        let own = self.root.get("properties").map(JsonTree::members).unwrap_or_default();
        let mut out = own.to_vec();
        let named = |schema: &&'r JsonTree| schema.get("properties").map(JsonTree::members).unwrap_or_default();
        // All that always holds, so any of it accepts enough.
        for (name, schema) in self.all.iter().flat_map(named) {
            if !has(&out, name) {
                out.push((name.clone(), schema.clone()));
            }
        }
        let always = out.len();
        // Put in last: another set of branches may still say what the property is.
        let mut loose: Vec<(String, JsonTree)> = Vec::new();
        for union in &self.unions {
            for (name, _) in union.iter().flatten().flat_map(named) {
                if has(&out[..always], name) {
                    continue;
                }
                match union_says(union, name) {
                    UnionSays::One(schemas) if !has(&out, name) => out.push((name.clone(), one_of(schemas))),
                    UnionSays::One(_) => {}
                    UnionSays::Anything(described) if !has(&loose, name) => {
                        loose.push((name.clone(), described.unwrap_or_else(JsonTree::empty)));
                    }
                    UnionSays::Anything(_) => {}
                }
            }
        }
        for (name, schema) in loose {
            if !has(&out, &name) {
                out.push((name, schema));
            }
        }
        out
    }

    /// What has to be there whichever branch holds.
    fn required(&self) -> Vec<JsonTree> {
        let of = |schema: &JsonTree| schema.get("required").map(JsonTree::items).unwrap_or_default().to_vec();
        let mut out = of(self.root);
        let mut add = |names: Vec<JsonTree>| {
            for name in names {
                if !out.contains(&name) {
                    out.push(name);
                }
            }
        };
        self.all.iter().for_each(|schema| add(of(schema)));
        for union in &self.unions {
            let mut branches =
                union.iter().map(|branch| branch.iter().flat_map(|schema| of(schema)).collect::<Vec<_>>());
            let Some(mut common) = branches.next() else { continue };
            for branch in branches {
                common.retain(|name| branch.contains(name));
            }
            add(common);
        }
        out
    }
}

/// The schemas that hold where one does: itself, what it refers to, and its own `allOf`.
fn collect_conjuncts<'r>(
    root: &'r JsonTree,
    schema: &'r JsonTree,
    ignores_siblings: bool,
    hops: usize,
    out: &mut Vec<&'r JsonTree>,
) {
    // What is not followed forbids nothing, so the result accepts more and not less.
    let Some(hops) = hops.checked_sub(1) else { return };
    let reference = schema.get("$ref");
    if reference.is_none() || !ignores_siblings {
        out.push(schema);
        for part in schema.get("allOf").map(JsonTree::items).unwrap_or_default() {
            collect_conjuncts(root, part, ignores_siblings, hops, out);
        }
    }
    if let Some(target) = reference.and_then(JsonTree::as_text).and_then(|reference| target(root, &reference)) {
        collect_conjuncts(root, target, ignores_siblings, hops, out);
    }
}

fn union_says(union: &[Vec<&JsonTree>], name: &str) -> UnionSays {
    let (mut schemas, mut is_open) = (Vec::new(), false);
    for branch in union {
        if branch.iter().any(|schema| forbids(schema, name)) {
            continue;
        }
        // All schemas of a branch hold, so the first that describes it accepts enough.
        match branch.iter().find_map(|schema| schema.get("properties")?.get(name)) {
            Some(schema) if schemas.contains(schema) => {}
            Some(schema) => schemas.push(schema.clone()),
            None => is_open = true,
        }
    }
    // Every branch that names it may forbid it in another part: then it is never there, and may be shown as anything.
    if is_open || schemas.is_empty() {
        let first = schemas.first().map(|schema| {
            let words = schema.members().iter().filter(|(word, _)| DESCRIPTIONS.contains(&word.as_str()));
            JsonTree::Object(words.cloned().collect())
        });
        return UnionSays::Anything(first);
    }
    UnionSays::One(schemas)
}

/// Whether nothing of this name may be there.
fn forbids(schema: &JsonTree, name: &str) -> bool {
    schema.get("additionalProperties").is_some_and(|more| more.is_plain("false"))
        && schema.get("patternProperties").is_none()
        && schema.get("properties").is_none_or(|properties| properties.get(name).is_none())
}

/// A schema that accepts what one of these does.
fn one_of(mut schemas: Vec<JsonTree>) -> JsonTree {
    if schemas.len() == 1 {
        return schemas.remove(0);
    }
    // What tells the branches apart, usually.
    let constant = |schema: &JsonTree| -> Option<JsonTree> {
        let is_known = |word: &str| word == "const" || word == "type" || DESCRIPTIONS.contains(&word);
        schema.members().iter().all(|(word, _)| is_known(word)).then(|| schema.get("const").cloned()).flatten()
    };
    if let Some(constants) = schemas.iter().map(constant).collect::<Option<Vec<JsonTree>>>() {
        return JsonTree::Object(vec![("enum".to_owned(), JsonTree::List(constants))]);
    }
    JsonTree::Object(vec![("anyOf".to_owned(), JsonTree::List(schemas))])
}

fn has(members: &[(String, JsonTree)], name: &str) -> bool {
    members.iter().any(|(known, _)| known == name)
}

fn set(members: &mut Vec<(String, JsonTree)>, name: &str, value: JsonTree) {
    match members.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value,
        None => members.push((name.to_owned(), value)),
    }
}
