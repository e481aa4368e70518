//! Which module uses which, on every level of the tree: a cycle is a set of neighbours that all reach each other. That a
//! parent names its children, and they it, is how a tree is written and counts as no cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::parsed::ParsedFile;

pub(super) struct ModuleGraph {
    /// By parent module: who of its children uses which other.
    levels: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>>,
}

impl ModuleGraph {
    pub(super) fn of(files: &[ParsedFile]) -> Self {
        let modules: BTreeSet<&[String]> = files.iter().map(|file| file.module.as_slice()).collect();
        let given: BTreeMap<(&[String], &str), &[String]> = files
            .iter()
            .flat_map(|file| {
                let given_on = file.gives_on.iter();
                given_on.map(|(name, from)| ((file.module.as_slice(), name.as_str()), from.as_slice()))
            })
            .collect();
        let mut levels: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for file in files {
            for path in &file.uses {
                let target = owner(&modules, &given, path);
                let common = file.module.iter().zip(&target).take_while(|(own, other)| own == other).count();
                if let (Some(own), Some(other)) = (file.module.get(common), target.get(common)) {
                    let level = levels.entry(file.module[..common].to_vec()).or_default();
                    level.entry(own.clone()).or_default().insert(other.clone());
                }
            }
        }
        Self { levels }
    }

    /// Sets of two or more modules that all reach each other, each with its path.
    pub(super) fn cycles(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for (parent, edges) in &self.levels {
            let mut left: BTreeSet<&String> = edges.keys().collect();
            while let Some(start) = left.pop_first() {
                let forward = reached(edges, start);
                let cycle: Vec<&String> =
                    forward.iter().filter(|other| reached(edges, other).contains(start)).copied().collect();
                for member in &cycle {
                    left.remove(member);
                }
                if cycle.len() > 1 {
                    let prefix = parent.iter().map(|part| format!("{part}::")).collect::<String>();
                    found.push(cycle.into_iter().map(|member| format!("{prefix}{member}")).collect());
                }
            }
        }
        found
    }
}

/// The module that a path names something of. A name that another module gives on belongs to where it comes from.
fn owner(
    modules: &BTreeSet<&[String]>,
    given: &BTreeMap<(&[String], &str), &[String]>,
    path: &[String],
) -> Vec<String> {
    let length = (0..=path.len()).rev().find(|length| modules.contains(&path[..*length])).unwrap_or(0);
    let (module, rest) = path.split_at(length);
    match rest.first().and_then(|name| given.get(&(module, name.as_str()))) {
        // A module that gives a name on under the same path would never end.
        Some(from) if *from != path => owner(modules, given, from),
        _ => module.to_vec(),
    }
}

fn reached<'a>(edges: &'a BTreeMap<String, BTreeSet<String>>, start: &'a String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![start];
    while let Some(module) = next.pop() {
        for other in edges.get(module).into_iter().flatten() {
            if seen.insert(other) {
                next.push(other);
            }
        }
    }
    seen.insert(start);
    seen
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn graph(files: &[(&str, &str)]) -> ModuleGraph {
        let root = Path::new("/src");
        let parsed = files.iter().filter_map(|(path, text)| ParsedFile::read(root, &root.join(path), text));
        ModuleGraph::of(&parsed.collect::<Vec<_>>())
    }

    #[test]
    fn neighbours_that_use_each_other_are_a_cycle_and_a_parent_with_its_child_is_none() {
        let found = graph(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "mod inner; use crate::b::B;"),
            ("a/inner.rs", "use super::A; use crate::c::C;"),
            ("b.rs", "use crate::a::inner::I;"),
            ("c.rs", "struct C;"),
        ]);
        assert_eq!(found.cycles(), [["a", "b"]]);
    }

    #[test]
    fn a_name_that_is_given_on_belongs_to_where_it_is_defined() {
        let found = graph(&[
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ]);
        assert_eq!(found.cycles(), [["a", "b"]]);
    }
}
