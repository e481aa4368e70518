//! What is held and what is seen, over any course of listings and decisions.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;
use tidings_hub::approvals::{
    ApprovalDecision, ApprovalMode, ApprovalPolicy, ApprovalVerdict, Approvals, HeldView, SCREENED, Screened,
};
use tidings_hub::catalogue::{OfferItem, OfferList};
use tidings_proto::ListKind;

/// Which version of each item a server lists.
pub(super) type Versions = BTreeMap<(bool, u8), u8>;

pub(super) fn item(kind: ListKind, name: u8, version: u8) -> OfferItem {
    let raw = json!({ kind.key(): format!("item{name}"), "description": format!("version {version}") });
    OfferItem::read(kind, Bytes::from(raw.to_string()), false).unwrap()
}

fn kind(is_tool: bool) -> ListKind {
    if is_tool { ListKind::Tools } else { ListKind::Prompts }
}

pub(super) fn lists(versions: &Versions) -> [OfferList; 4] {
    let mut lists: [OfferList; 4] = Default::default();
    for is_tool in [true, false] {
        // The other way round than by name: the order of the server is not that of the names.
        let items = versions.iter().rev().filter(|((tool, _), _)| *tool == is_tool);
        let items = items.map(|((_, name), version)| item(kind(is_tool), *name, *version)).collect();
        lists[kind(is_tool) as usize] = OfferList::new(items, 7, true);
    }
    lists[ListKind::Resources as usize] =
        OfferList::new(versions.values().map(|version| item(ListKind::Resources, *version, 0)).collect(), 0, false);
    lists
}

/// Every item that is seen, with what it says, in the order in which it is listed.
pub(super) fn seen(screened: &Screened) -> Vec<(ListKind, String, Bytes)> {
    let of = |kind: ListKind| {
        screened.visible[kind as usize].in_order().map(move |(_, item)| (kind, item.key.to_string(), item.raw.clone()))
    };
    SCREENED.into_iter().flat_map(of).collect()
}

pub(super) fn listed(lists: &[OfferList; 4]) -> Vec<(ListKind, String, Bytes)> {
    let of = |kind: ListKind| {
        lists[kind as usize].in_order().map(move |(_, item)| (kind, item.key.to_string(), item.raw.clone()))
    };
    SCREENED.into_iter().flat_map(of).collect()
}

#[derive(Clone, Debug)]
enum Step {
    List(Versions),
    /// Decides about what is held, by place.
    Decide(u8, bool),
    DecideAll(bool),
}

pub(super) fn versions() -> impl Strategy<Value = Versions> {
    proptest::collection::btree_map((any::<bool>(), 0u8..5), 0u8..3, 0..8)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => versions().prop_map(Step::List),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(place, yes)| Step::Decide(place, yes)),
        1 => any::<bool>().prop_map(Step::DecideAll),
    ];
    proptest::collection::vec(step, 1..24)
}

fn verdict(yes: bool) -> ApprovalVerdict {
    if yes { ApprovalVerdict::Approve } else { ApprovalVerdict::Reject }
}

proptest! {
    // trust.md, the lock
    #[test]
    fn with_auto_nothing_is_ever_held(courses in proptest::collection::vec(versions(), 1..8)) {
        let mut approvals = Approvals::default();
        for versions in courses {
            let lists = lists(&versions);
            let screened = approvals.screen(ApprovalPolicy::default(), &lists);
            prop_assert!(screened.held.is_empty() && screened.first_sight.is_none());
            prop_assert_eq!(seen(&screened), listed(&lists));
        }
        prop_assert_eq!(approvals, Approvals::default());
    }

    // trust.md, the lock
    #[test]
    fn what_is_seen_is_what_was_approved_and_nothing_else(
        manual in any::<bool>(), old in any::<bool>(), first in versions(), steps in steps(),
    ) {
        let mode = if manual { ApprovalMode::Manual } else { ApprovalMode::Changed };
        let policy = ApprovalPolicy { mode, held: if old { HeldView::Old } else { HeldView::Hide } };
        let mut approvals = Approvals::default();
        // The model: which version of an item is approved, and which was rejected last.
        let mut yes: BTreeMap<(ListKind, String), Bytes> = BTreeMap::new();
        let mut no: BTreeMap<(ListKind, String), Bytes> = BTreeMap::new();
        let mut now = lists(&first);
        let mut screened = approvals.screen(policy, &now);
        prop_assert_eq!(screened.first_sight.is_some(), !manual);
        if !manual {
            prop_assert_eq!(seen(&screened), listed(&now), "the first sight is trusted");
            yes.extend(listed(&now).into_iter().map(|(kind, name, raw)| ((kind, name), raw)));
        }
        for step in [vec![Step::List(first)], steps].concat() {
            let before = seen(&screened);
            let mut told = None;
            match step {
                Step::List(versions) => now = lists(&versions),
                Step::Decide(place, is_yes) => {
                    let Some(held) = screened.held.get(usize::from(place) % screened.held.len().max(1)) else { continue };
                    told = Some((vec![held.decision(verdict(is_yes))], is_yes));
                }
                Step::DecideAll(is_yes) => {
                    told = Some((screened.held.iter().map(|held| held.decision(verdict(is_yes))).collect(), is_yes));
                }
            }
            if let Some((decisions, is_yes)) = &told {
                for ApprovalDecision { kind, name, definition, .. } in decisions {
                    let (key, raw) = ((*kind, name.to_string()), definition.clone().unwrap());
                    if *is_yes {
                        no.remove(&key);
                        yes.insert(key, raw);
                    } else {
                        no.insert(key, raw);
                    }
                }
                decisions.iter().cloned().for_each(|decision| approvals.decide(decision));
            }
            screened = approvals.screen(policy, &now);
            prop_assert!(screened.first_sight.is_none());
            // Seen: what is listed with the approved definition; with `old` also the approved definition of what changed.
            let model: Vec<_> = listed(&now).into_iter().filter_map(|(kind, name, raw)| {
                let approved = yes.get(&(kind, name.clone()))?;
                (raw == *approved || old).then(|| (kind, name, approved.clone()))
            }).collect();
            prop_assert_eq!(seen(&screened), model);
            // Held: what is listed with another definition, in order; and no held definition is seen.
            let held: Vec<_> = screened.held.iter().map(|held| (held.kind, held.item.key.to_string(), held.item.raw.clone())).collect();
            let mut expected: Vec<_> = listed(&now).into_iter()
                .filter(|(kind, name, raw)| yes.get(&(*kind, name.clone())) != Some(raw)).collect();
            expected.sort();
            prop_assert_eq!(&held, &expected);
            for held in &screened.held {
                let key = (held.kind, held.item.key.to_string());
                prop_assert_eq!(held.rejected, no.get(&key) == Some(&held.item.raw));
                prop_assert_eq!(held.approved.as_ref().map(|known| known.definition.clone().unwrap()), yes.get(&key).cloned());
            }
            match told {
                Some((_, false)) => prop_assert_eq!(seen(&screened), before, "a rejection changes no view"),
                Some((decisions, true)) => {
                    let appeared: Vec<_> = seen(&screened).into_iter().filter(|item| !before.contains(item)).collect();
                    prop_assert_eq!(appeared.len(), decisions.len(), "exactly what was approved appears");
                }
                None => {}
            }
            // Resources are not screened, and what the server says of its lists stays.
            prop_assert_eq!(screened.visible[2].items.len(), now[2].items.len());
            prop_assert_eq!((screened.visible[0].ttl_ms, screened.visible[0].public), (now[0].ttl_ms, now[0].public));
            // What was kept of all decisions decides the same.
            let kept = SCREENED.into_iter().flat_map(|kind| approvals.approved(kind).map(move |(name, item)| ApprovalDecision {
                kind, name: name.clone(), digest: item.digest, definition: None, verdict: ApprovalVerdict::Approve,
            }).collect::<Vec<_>>());
            let mut again = approvals.clone();
            again.follow(Approvals::known(true, kept));
            prop_assert_eq!(seen(&again.screen(policy, &now)), seen(&screened));
        }
    }
}

#[test]
fn a_definition_that_is_only_known_by_its_hash_is_hidden_when_it_changes() {
    let versions = Versions::from([((true, 0), 0)]);
    let approved = item(ListKind::Tools, 0, 0);
    let decision = ApprovalDecision {
        definition: None,
        ..ApprovalDecision::about(ListKind::Tools, &approved, ApprovalVerdict::Approve)
    };
    let mut approvals = Approvals::known(true, [decision.clone()]);
    let policy = ApprovalPolicy { mode: ApprovalMode::Changed, held: HeldView::Old };
    let changed = lists(&Versions::from([((true, 0), 1)]));
    assert_eq!(seen(&approvals.screen(policy, &changed)), []);
    assert_eq!(seen(&approvals.screen(policy, &lists(&versions))), listed(&lists(&versions)), "it returns by itself");
    assert_eq!(seen(&approvals.screen(policy, &changed)), listed(&lists(&versions)), "now it is known");
    // A definition that does not have the approved hash is not shown, whoever kept it.
    let forged = ApprovalDecision { definition: Some(item(ListKind::Tools, 0, 2).raw), ..decision };
    assert_eq!(seen(&Approvals::known(true, [forged]).screen(policy, &changed)), []);
}
