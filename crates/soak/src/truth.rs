//! What is offered by all, and how it compares with what a client saw.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::{DefinitionView, SoakList};

/// The four lists by public key.
pub(crate) type Lists = [BTreeMap<String, Value>; 4];

/// The lists as each view should have them.
pub(crate) struct ListTruth([Lists; 2]);

impl ListTruth {
    pub(crate) fn new(make: impl Fn(DefinitionView) -> Lists) -> Self {
        Self(DefinitionView::ALL.map(make))
    }

    pub(crate) fn of(&self, view: DefinitionView) -> &Lists {
        &self.0[view as usize]
    }
}

/// The differences in words; empty when there are none.
pub(crate) fn differences(seen: &Lists, truth: &Lists) -> Vec<String> {
    let mut found = Vec::new();
    for kind in SoakList::ALL {
        let (seen, truth) = (&seen[kind as usize], &truth[kind as usize]);
        for (key, value) in truth {
            match seen.get(key) {
                None => found.push(format!("{}: {key} was never seen", kind.name())),
                Some(other) if other != value => {
                    found.push(format!("{}: {key} was seen as {other}, is {value}", kind.name()));
                }
                Some(_) => {}
            }
        }
        let gone = seen.keys().filter(|key| !truth.contains_key(*key));
        found.extend(gone.map(|key| format!("{}: {key} is gone but was seen last", kind.name())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(tools: &[(&str, i64)]) -> Lists {
        let mut lists = Lists::default();
        lists[0] = tools.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        lists
    }

    #[test]
    fn every_way_to_differ_is_found() {
        let truth = lists(&[("a", 1), ("b", 2)]);
        assert!(differences(&truth, &truth).is_empty());
        assert_eq!(differences(&lists(&[("a", 1)]), &truth), ["tools: b was never seen"]);
        assert_eq!(differences(&lists(&[("a", 1), ("b", 3)]), &truth), ["tools: b was seen as 3, is 2"]);
        let more = lists(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(differences(&more, &truth), ["tools: c is gone but was seen last"]);
    }
}
