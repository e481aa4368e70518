//! Which tools and prompts of a server clients may see: those whose definition somebody approved.
//!
//! [`Approvals`] is what is known of one server: which definitions are approved, which are rejected. [`Approvals::screen`] takes a fresh
//! listing and says what of it is visible and what is held. An item counts as approved by the hash of what its definition says, so one
//! that comes back to its approved definition is visible again without a word from anybody.
//!
//! Where several replicas decide, what counts is what they agreed on ([`AgreedApprovals`]): a listing changes nothing by itself there.
//!
//! Belongs here: the decision, and what is suspect about a definition ([`examine`]). Not here: the file that keeps what was decided, and
//! who is told (the ordinary commit).

mod agreed;
mod examine;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use tidings_proto::{ListKind, LocalName};
use tidings_wire::Digest;

use crate::catalogue::{OfferItem, OfferList, ScreenedItem};
pub use agreed::{AgreedApprovals, DecidedMeanwhile};
pub use examine::{DefinitionFinding, FindingSeverity, examine};

/// The lists that are screened: what a model is shown as its own abilities. Resources are data, and are as many as a server has rows.
pub const SCREENED: [ListKind; 2] = [ListKind::Tools, ListKind::Prompts];

/// Which definitions somebody has to approve before clients see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// Nothing: what a server offers is visible at once.
    #[default]
    Auto,
    /// What is new or different after the first sight of the server.
    Changed,
    /// Everything, also what a server shows at first sight.
    Manual,
}

/// What clients see of an item whose definition changed and is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeldView {
    /// Nothing: it is as if the item were not there.
    #[default]
    Hide,
    /// The definition that was approved, as long as it is known.
    Old,
}

/// How one server is screened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// Which definitions are held until somebody approves them.
    pub mode: ApprovalMode,
    /// What is seen of what is held.
    pub held: HeldView,
}

/// Which item of a server: its list, and what the server calls it.
pub type ItemName = (ListKind, LocalName);

/// A definition that somebody approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedItem {
    /// The hash of what it says.
    pub digest: Digest,
    /// The definition itself, where it was seen since.
    pub definition: Option<Bytes>,
}

/// An item that clients do not see as the server offers it.
#[derive(Clone, Debug)]
pub struct HeldItem {
    /// The list that the item stands in.
    pub kind: ListKind,
    /// The item as the server offers it now.
    pub item: OfferItem,
    /// What was approved under this name; `None` for one that is new.
    pub approved: Option<ApprovedItem>,
    /// Whether somebody rejected exactly this definition.
    pub rejected: bool,
}

/// What somebody says about a held definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalVerdict {
    /// It is let through.
    Approve,
    /// It is kept away.
    Reject,
}

/// One decision about one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// The list that the item stands in.
    pub kind: ListKind,
    /// What the server calls the item.
    pub name: LocalName,
    /// The hash of the definition that is meant.
    pub digest: Digest,
    /// The definition itself, where it is known.
    pub definition: Option<Bytes>,
    /// What becomes of it.
    pub verdict: ApprovalVerdict,
}

/// What is visible of a listing, and what is not.
#[derive(Debug)]
pub struct Screened {
    /// What clients may see.
    pub visible: [OfferList; 4],
    /// What they may not see as it is, by list and name.
    pub held: Vec<HeldItem>,
    /// What was approved because it was the first sight of the server: to be kept. `None` at every other sight.
    pub first_sight: Option<Vec<ApprovalDecision>>,
    /// Approved definitions of which only the hash was known before.
    pub learnt: Vec<ApprovalDecision>,
}

/// What was decided about the definitions of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Whether the server was seen before: only what it shows at first sight is trusted by itself.
    seen: bool,
    /// By list, then by name.
    approved: [BTreeMap<LocalName, ApprovedItem>; 4],
    /// The last definition of each name that was rejected.
    rejected: BTreeMap<ItemName, Digest>,
}

impl Approvals {
    /// What was decided before. `seen`: whether the server is known at all.
    pub fn known(seen: bool, decisions: impl IntoIterator<Item = ApprovalDecision>) -> Self {
        let mut approvals = Self { seen, ..Self::default() };
        decisions.into_iter().for_each(|decision| approvals.decide(decision));
        approvals
    }

    /// Whether the server was seen before.
    pub fn is_seen(&self) -> bool {
        self.seen
    }

    /// Takes a decision. Whoever decides about a server has seen it.
    pub fn decide(&mut self, decision: ApprovalDecision) {
        self.seen = true;
        let ApprovalDecision { kind, name, digest, definition, verdict } = decision;
        match verdict {
            ApprovalVerdict::Approve => {
                self.rejected.remove(&(kind, name.clone()));
                self.approve(kind, name, ApprovedItem { digest, definition });
            }
            // What was approved under this name before stays approved: the server may go back to it.
            ApprovalVerdict::Reject => drop(self.rejected.insert((kind, name), digest)),
        }
    }

    fn approve(&mut self, kind: ListKind, name: LocalName, approved: ApprovedItem) {
        match self.approved[kind as usize].entry(name) {
            Entry::Occupied(mut known) => {
                // What comes from the store may be the hash alone; the definition that was seen since is not lost for it.
                let keeps = known.get().digest == approved.digest && approved.definition.is_none();
                if !keeps {
                    known.insert(approved);
                }
            }
            Entry::Vacant(free) => drop(free.insert(approved)),
        }
    }

    /// Takes over what a listing showed. Nobody decided by that, so what somebody rejected under these names stays rejected.
    fn take_over(&mut self, shown: &[ApprovalDecision]) {
        for ApprovalDecision { kind, name, digest, definition, .. } in shown.iter().cloned() {
            self.approve(kind, name, ApprovedItem { digest, definition });
        }
    }

    /// What was decided elsewhere takes the place of this; definitions that are known here stay known.
    pub fn follow(&mut self, mut other: Self) {
        for (mine, others) in self.approved.iter_mut().zip(&mut other.approved) {
            for (name, item) in others.iter_mut().filter(|(_, item)| item.definition.is_none()) {
                // Taken out and not cloned: all of `self` is replaced below.
                let known = mine.remove(name).filter(|known| known.digest == item.digest);
                item.definition = known.and_then(|known| known.definition);
            }
        }
        *self = other;
    }

    /// The approved items of a list, by name.
    pub fn approved(&self, kind: ListKind) -> impl Iterator<Item = (&LocalName, &ApprovedItem)> {
        self.approved[kind as usize].iter()
    }

    /// Whether exactly this definition was approved meanwhile.
    pub fn approves(&self, held: &HeldItem) -> bool {
        let known = self.approved[held.kind as usize].get(&held.item.key);
        known.is_some_and(|known| known.digest == held.item.digest)
    }

    /// Whether exactly this definition was rejected.
    pub fn rejects(&self, kind: ListKind, name: &LocalName, digest: Digest) -> bool {
        // Nearly always empty; the check saves an allocation for the key on every item of a listing.
        !self.rejected.is_empty() && self.rejected.get(&(kind, name.clone())) == Some(&digest)
    }

    /// The rejected definitions, by list and name.
    pub fn rejected(&self) -> impl Iterator<Item = (&ItemName, Digest)> {
        self.rejected.iter().map(|(name, digest)| (name, *digest))
    }

    /// Takes a listing: what of it clients may see. The first sight of a server is trusted where the policy says so.
    pub fn screen(&mut self, policy: ApprovalPolicy, lists: &[OfferList; 4]) -> Screened {
        let first_sight = self.first_sight(policy, lists);
        if let Some(trusted) = &first_sight {
            self.take_over(trusted);
            self.seen = true;
        }
        let learnt = self.unlearnt(policy, lists);
        self.take_over(&learnt);
        Screened { first_sight, learnt, ..self.judge(policy, lists) }
    }

    /// What clients may see of a listing by what is decided, which stays as it is.
    pub fn judge(&self, policy: ApprovalPolicy, lists: &[OfferList; 4]) -> Screened {
        let mut screened = Screened { visible: lists.clone(), held: Vec::new(), first_sight: None, learnt: Vec::new() };
        // `seen` stays as it is: where approval is asked for later, what the server shows then is its first sight.
        if policy.mode != ApprovalMode::Auto {
            for kind in SCREENED {
                self.judge_list(kind, policy.held, &lists[kind as usize], &mut screened);
            }
        }
        screened
    }

    /// What is trusted of a listing because it is the first sight of the server. `None`: it is not, or that is not trusted.
    fn first_sight(&self, policy: ApprovalPolicy, lists: &[OfferList; 4]) -> Option<Vec<ApprovalDecision>> {
        if policy.mode != ApprovalMode::Changed || self.seen {
            return None;
        }
        let all = SCREENED.into_iter().flat_map(|kind| lists[kind as usize].items.iter().map(move |i| (kind, i)));
        // What was rejected stays away, also from a server that nobody remembers having seen.
        let trusted = all
            .filter(|(kind, item)| !self.rejects(*kind, &item.key, item.digest))
            .map(|(kind, item)| ApprovalDecision::about(kind, item, ApprovalVerdict::Approve));
        Some(trusted.collect())
    }

    /// The approved definitions of a listing of which only the hash is known.
    fn unlearnt(&self, policy: ApprovalPolicy, lists: &[OfferList; 4]) -> Vec<ApprovalDecision> {
        let mut learnt = Vec::new();
        for kind in SCREENED.into_iter().filter(|_| policy.mode != ApprovalMode::Auto) {
            self.with_approved(kind, &lists[kind as usize], |item, known| {
                if known.is_some_and(|known| known.digest == item.digest && known.definition.is_none()) {
                    learnt.push(ApprovalDecision::about(kind, item, ApprovalVerdict::Approve));
                }
            });
        }
        learnt
    }

    /// Each item of a list with what is approved under its name.
    fn with_approved<'l>(
        &self,
        kind: ListKind,
        list: &'l OfferList,
        mut each: impl FnMut(&'l OfferItem, Option<&ApprovedItem>),
    ) {
        // Both are sorted by name, so one walk over them is enough.
        let mut approved = self.approved[kind as usize].iter().peekable();
        for item in &list.items {
            while approved.peek().is_some_and(|(name, _)| **name < item.key) {
                approved.next();
            }
            each(item, approved.peek().filter(|(name, _)| **name == item.key).map(|(_, known)| *known));
        }
    }

    fn judge_list(&self, kind: ListKind, view: HeldView, list: &OfferList, screened: &mut Screened) {
        // `held` gathers both lists, and only what this one adds belongs to its items.
        let before = screened.held.len();
        self.with_approved(kind, list, |item, known| {
            if known.is_none_or(|known| known.digest != item.digest) {
                let rejected = self.rejects(kind, &item.key, item.digest);
                screened.held.push(HeldItem { kind, item: item.clone(), approved: known.cloned(), rejected });
            }
        });
        let held = &screened.held[before..];
        if held.is_empty() {
            return;
        }
        let mut held = held.iter().peekable();
        // `held` is in the order of the items, so the next one is the only one that can be meant.
        screened.visible[kind as usize] = list.screened(|item| match held.next_if(|held| held.item.key == item.key) {
            None => ScreenedItem::Keep,
            Some(held) => held.shown(view).map_or(ScreenedItem::Leave, ScreenedItem::Replace),
        });
    }
}

impl HeldItem {
    /// The approved definition in the place of this one, where that is wanted and known.
    fn shown(&self, view: HeldView) -> Option<OfferItem> {
        let approved = self.approved.as_ref().filter(|_| view == HeldView::Old)?;
        let item = OfferItem::read(self.kind, approved.definition.clone()?, false).ok()?;
        // A definition that was kept elsewhere is not trusted by its name alone.
        (item.digest == approved.digest && item.key == self.item.key).then_some(item)
    }

    /// A decision about exactly this definition.
    pub fn decision(&self, verdict: ApprovalVerdict) -> ApprovalDecision {
        ApprovalDecision::about(self.kind, &self.item, verdict)
    }
}

impl ApprovalDecision {
    /// A decision about an item as it is offered.
    pub fn about(kind: ListKind, item: &OfferItem, verdict: ApprovalVerdict) -> Self {
        let definition = Some(item.raw.clone());
        Self { kind, name: item.key.clone(), digest: item.digest, definition, verdict }
    }
}
