//! What is held and what is seen at several replicas that read one log of listings and decisions, each at its own pace.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use tidings_hub::approvals::{
    AgreedApprovals, ApprovalDecision, ApprovalMode, ApprovalPolicy, ApprovalVerdict, Approvals, DecidedMeanwhile,
    HeldItem, HeldView, Screened,
};
use tidings_hub::catalogue::OfferList;
use tidings_proto::{ListKind, LocalName};

use crate::approvals::{Versions, item, listed, lists, seen, versions};

const REPLICAS: usize = 3;

#[derive(Clone, Debug)]
enum Entry {
    Offer(Box<[OfferList; 4]>),
    Decide(u64, Approvals),
}

/// One replica: how far it has read, and what follows from that.
#[derive(Clone, Debug, Default)]
struct Replica {
    read: usize,
    agreed: AgreedApprovals,
    offer: Option<Box<[OfferList; 4]>>,
    /// What its own file says.
    kept: Approvals,
}

impl Replica {
    fn read(&mut self, log: &[Entry], most: usize) {
        for entry in log.iter().skip(self.read).take(most) {
            self.read += 1;
            match entry {
                Entry::Offer(lists) => self.offer = Some(lists.clone()),
                Entry::Decide(number, _) if *number != self.agreed.number() + 1 => {}
                Entry::Decide(number, approvals) => self.agreed = AgreedApprovals::new(*number, approvals.clone()),
            }
        }
    }

    fn judge(&self, policy: ApprovalPolicy) -> Screened {
        self.agreed.approvals().judge(policy, self.offer.as_ref().unwrap_or(&Box::default()))
    }

    fn decide(&self, held: &HeldItem, verdict: ApprovalVerdict) -> Entry {
        Entry::Decide(self.agreed.number() + 1, self.agreed.decided([held.decision(verdict)]))
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The server lists this at a replica.
    List(usize, Versions),
    /// Replicas decide at once about what each of them holds, by place.
    Decide(Vec<(usize, u8, bool)>),
    /// A replica reads some entries more.
    Read(usize, usize),
    /// A replica starts again, with another file.
    Restart(usize, Versions),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..REPLICAS, versions()).prop_map(|(at, versions)| Step::List(at, versions)),
        4 => proptest::collection::vec((0..REPLICAS, any::<u8>(), any::<bool>()), 1..4).prop_map(Step::Decide),
        2 => (0..REPLICAS, 1..5usize).prop_map(|(at, most)| Step::Read(at, most)),
        1 => (0..REPLICAS, versions()).prop_map(|(at, versions)| Step::Restart(at, versions)),
    ];
    proptest::collection::vec(step, 1..24)
}

fn verdict(yes: bool) -> ApprovalVerdict {
    if yes { ApprovalVerdict::Approve } else { ApprovalVerdict::Reject }
}

/// What a file says that approves these; only their hashes, as files have them.
fn file(versions: &Versions) -> Approvals {
    let lists = lists(versions);
    let approve = |(kind, name, _): (ListKind, String, Bytes)| {
        let item = lists[kind as usize].get(&LocalName::new(name.as_str()))?;
        Some(ApprovalDecision { definition: None, ..ApprovalDecision::about(kind, item, ApprovalVerdict::Approve) })
    };
    Approvals::known(!versions.is_empty(), listed(&lists).into_iter().filter_map(approve))
}

type Said = (ListKind, String, Bytes);

fn held(screened: &Screened) -> Vec<(Said, bool)> {
    let one = |held: &HeldItem| ((held.kind, held.item.key.to_string(), held.item.raw.clone()), held.rejected);
    screened.held.iter().map(one).collect()
}

/// What counts, decision by decision, beside the machine.
#[derive(Default)]
struct Model {
    yes: BTreeMap<(ListKind, String), Bytes>,
    no: BTreeMap<(ListKind, String), Bytes>,
}

impl Model {
    fn decided(&mut self, held: &HeldItem, verdict: ApprovalVerdict) {
        let (key, raw) = ((held.kind, held.item.key.to_string()), held.item.raw.clone());
        match verdict {
            ApprovalVerdict::Approve => {
                self.no.remove(&key);
                self.yes.insert(key, raw);
            }
            ApprovalVerdict::Reject => drop(self.no.insert(key, raw)),
        }
    }
}

proptest! {
    // cluster: what is held is one, whoever decides and however far each has read
    #[test]
    fn replicas_that_read_the_same_log_hold_the_same_and_of_two_decisions_one_counts(
        manual in any::<bool>(), old in any::<bool>(),
        files in proptest::array::uniform3(versions()), steps in steps(),
    ) {
        let mode = if manual { ApprovalMode::Manual } else { ApprovalMode::Changed };
        let policy = ApprovalPolicy { mode, held: if old { HeldView::Old } else { HeldView::Hide } };
        let mut replicas: Vec<Replica> =
            files.iter().map(|versions| Replica { kept: file(versions), ..Replica::default() }).collect();
        let mut log: Vec<Entry> = Vec::new();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::List(at, versions) => {
                    let now = lists(&versions);
                    let replica = &mut replicas[at];
                    // An owner has read what made it one, and lists in the log follow what they need.
                    replica.read(&log, usize::MAX);
                    let is_first = replica.agreed.number() == 0;
                    if let Some(wanted) = replica.agreed.wanted(policy, &replica.kept, &now) {
                        log.push(Entry::Decide(replica.agreed.number() + 1, wanted));
                        replica.read(&log, usize::MAX);
                        prop_assert_eq!(replica.agreed.wanted(policy, &replica.kept, &now), None, "it is said once");
                    }
                    if is_first {
                        let is_kept = replica.kept.is_seen();
                        for (kind, name, raw) in listed(&now) {
                            let digest = now[kind as usize].get(&LocalName::new(name.as_str())).unwrap().digest;
                            let by_file = replica.kept.approved(kind)
                                .any(|(known, item)| known.as_str() == name && item.digest == digest);
                            if by_file || (!is_kept && !manual) {
                                model.yes.insert((kind, name), raw);
                            }
                        }
                    }
                    // Of an approved hash that was never offered, the definition is not known before it is.
                    for (kind, name, raw) in listed(&now) {
                        let known = replica.agreed.approvals().approved(kind).find(|(known, _)| known.as_str() == name);
                        if known.is_some_and(|(_, known)| known.definition.as_ref() == Some(&raw)) {
                            model.yes.insert((kind, name), raw);
                        }
                    }
                    log.push(Entry::Offer(Box::new(now)));
                }
                Step::Decide(choices) => {
                    // All look, then all write: only one of them can be the next.
                    let looked: Vec<_> = choices.iter().filter_map(|(at, place, yes)| {
                        let replica = &mut replicas[*at];
                        replica.read(&log, usize::MAX);
                        let screened = replica.judge(policy);
                        let held = screened.held.get(usize::from(*place) % screened.held.len().max(1))?.clone();
                        Some((*at, held, verdict(*yes)))
                    }).collect();
                    let written: Vec<Entry> =
                        looked.iter().map(|(at, held, verdict)| replicas[*at].decide(held, *verdict)).collect();
                    let first = log.len();
                    log.extend(written);
                    for (place, (at, held, verdict)) in looked.iter().enumerate() {
                        let replica = &mut replicas[*at];
                        if place == 0 {
                            replica.read(&log, first + 1 - replica.read);
                            model.decided(held, *verdict);
                        } else {
                            // It was void: look again.
                            replica.read(&log, usize::MAX);
                            let yes = model.yes.get(&(held.kind, held.item.key.to_string())) == Some(&held.item.raw);
                            let no = model.no.get(&(held.kind, held.item.key.to_string())) == Some(&held.item.raw);
                            let meanwhile = replica.agreed.meanwhile(held);
                            match meanwhile {
                                Some(DecidedMeanwhile::Approved) => prop_assert!(yes, "it is told what is there"),
                                Some(DecidedMeanwhile::Rejected) => prop_assert!(no && !held.rejected),
                                None => {
                                    prop_assert!(!yes && (!no || held.rejected), "nobody decided about it");
                                    log.push(replica.decide(held, *verdict));
                                    model.decided(held, *verdict);
                                }
                            }
                        }
                        // Whoever is answered finds its decision in force, and so does who reads after it.
                        replica.read(&log, usize::MAX);
                    }
                }
                Step::Read(at, most) => replicas[at].read(&log, most),
                Step::Restart(at, versions) => replicas[at] = Replica { kept: file(&versions), ..Replica::default() },
            }
            // Equal where they have read equally much.
            for one in 0..REPLICAS {
                for other in 0..one {
                    if replicas[one].read == replicas[other].read {
                        prop_assert_eq!(&replicas[one].agreed, &replicas[other].agreed);
                        let (one, other) = (replicas[one].judge(policy), replicas[other].judge(policy));
                        prop_assert_eq!((seen(&one), held(&one)), (seen(&other), held(&other)));
                    }
                }
            }
            // One that reads all of it, against the model.
            let mut late = Replica::default();
            late.read(&log, usize::MAX);
            let screened = late.judge(policy);
            let offered = late.offer.as_deref().map(listed).unwrap_or_default();
            let shown: Vec<Said> = offered.iter().filter_map(|(kind, name, raw)| {
                let approved = model.yes.get(&(*kind, name.clone()))?;
                (raw == approved || old).then(|| (*kind, name.clone(), approved.clone()))
            }).collect();
            prop_assert_eq!(seen(&screened), shown);
            let mut waits: Vec<(Said, bool)> = offered.into_iter()
                .filter(|(kind, name, raw)| model.yes.get(&(*kind, name.clone())) != Some(raw))
                .map(|(kind, name, raw)| {
                    let rejected = model.no.get(&(kind, name.clone())) == Some(&raw);
                    ((kind, name, raw), rejected)
                }).collect();
            waits.sort();
            prop_assert_eq!(held(&screened), waits);
            // The last listing and the last decision are enough: nothing hangs on what was read before them.
            let short = Replica { offer: late.offer.clone(), agreed: late.agreed.clone(), ..Replica::default() };
            prop_assert_eq!(seen(&short.judge(policy)), seen(&screened));
        }
    }
}

// cluster: files that differ
#[test]
fn the_file_of_whoever_lists_first_counts_and_another_one_changes_nothing() {
    let policy = ApprovalPolicy { mode: ApprovalMode::Changed, held: HeldView::Hide };
    let (zero, one) = (Versions::from([((true, 0), 0)]), Versions::from([((true, 0), 1)]));
    let (mine, other) = (file(&zero), file(&one));
    let now = lists(&one);
    let agreed = AgreedApprovals::default();
    let begun = AgreedApprovals::new(1, agreed.wanted(policy, &mine, &now).unwrap());
    assert_eq!(seen(&begun.approvals().judge(policy, &now)), [], "the first file approves another definition");
    assert_eq!(begun.wanted(policy, &other, &now), None, "the other file is not asked any more");
    // A file that does not know the server leaves it to the first sight, and so for everybody.
    let sight = AgreedApprovals::new(1, agreed.wanted(policy, &Approvals::default(), &now).unwrap());
    assert_eq!(seen(&sight.approvals().judge(policy, &now)), listed(&now));
    let empty = agreed.wanted(ApprovalPolicy { mode: ApprovalMode::Manual, ..policy }, &Approvals::default(), &now);
    assert!(empty.is_some_and(|empty| empty.is_seen()), "that nothing is approved is decided, too");
    assert_eq!(agreed.wanted(ApprovalPolicy::default(), &mine, &now), None, "nothing waits, so nothing is agreed on");
    let held = begun.approvals().judge(policy, &now).held.remove(0);
    assert_eq!(held.item.raw, item(ListKind::Tools, 0, 1).raw);
}
