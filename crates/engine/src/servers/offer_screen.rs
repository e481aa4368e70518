//! What one server offers beside what clients may see of it: the state behind approvals. The hub's `Approvals` decides.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::time::SystemTime;

use tidings_hub::approvals::{Approvals, HeldItem, Screened};
use tidings_hub::catalogue::{OfferList, ServerOffer};
use tidings_proto::{ListKind, LocalName};
use tidings_sync::Lock;

use crate::plan::approval::ApprovalPlan;

/// How many items are remembered that only single sessions were offered.
const MOST_OWN: usize = 1_000;

/// Whose listing is screened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedFor {
    /// The link that all share.
    Everybody,
    /// A link of one session: what it lists says nothing about what others are offered.
    Session,
}

/// What came of screening a listing.
pub(crate) struct ScreenNews {
    /// What is held since now; what was rejected before is no news.
    pub(crate) held: Vec<HeldItem>,
    pub(crate) screened: Screened,
}

/// Something that is held, and since when.
#[derive(Clone)]
pub(crate) struct HeldSince {
    pub(crate) held: HeldItem,
    pub(crate) since: SystemTime,
}

#[derive(Default)]
pub(crate) struct OfferScreen {
    seen: Lock<SeenOffer>,
}

#[derive(Default)]
struct SeenOffer {
    /// The lists as the server gave them last; kept only where something may be held.
    lists: Option<[OfferList; 4]>,
    held: Vec<HeldSince>,
    /// What only single sessions were offered.
    own: Vec<HeldSince>,
}

impl OfferScreen {
    fn lock(&self) -> MutexGuard<'_, SeenOffer> {
        self.seen.lock()
    }

    /// The lists as the server gave them last.
    pub(crate) fn lists(&self) -> Option<[OfferList; 4]> {
        self.lock().lists.clone()
    }

    /// Takes a fresh listing: the offer is left with what clients may see.
    pub(crate) fn take(
        &self,
        plan: &ApprovalPlan,
        approvals: &mut Approvals,
        offer: &mut ServerOffer,
        listed_for: ListedFor,
    ) -> ScreenNews {
        let mut screened = plan.screen(approvals, &offer.lists);
        let listed = std::mem::replace(&mut offer.lists, std::mem::take(&mut screened.visible));
        let mut seen = self.lock();
        let held = seen.note(&screened.held, listed_for);
        if listed_for == ListedFor::Everybody {
            seen.lists = Some(listed);
        }
        ScreenNews { held, screened }
    }

    /// What clients may see of the last listing by what is decided now. `None` where there was none.
    pub(crate) fn again(&self, plan: &ApprovalPlan, approvals: &mut Approvals) -> Option<[OfferList; 4]> {
        let lists = self.lists()?;
        let screened = plan.screen(approvals, &lists);
        let mut seen = self.lock();
        seen.note(&screened.held, ListedFor::Everybody);
        let (held, rejects) =
            (std::mem::take(&mut seen.own), |of: &HeldItem| approvals.rejects(of.kind, &of.item.key, of.item.digest));
        // What a session was offered is listed again by it; until then only what is still undecided is shown.
        seen.own = held.into_iter().filter(|own| !approvals.approves(&own.held) && !rejects(&own.held)).collect();
        Some(screened.visible)
    }

    /// Everything that is held now.
    pub(crate) fn held(&self) -> Vec<HeldSince> {
        self.lock().all().cloned().collect()
    }

    /// How much of that is not rejected.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().all().filter(|held| !held.held.rejected).count()
    }

    /// How many items are held and not rejected.
    pub(crate) fn count(&self) -> usize {
        self.lock().held.iter().filter(|held| !held.held.rejected).count()
    }
}

impl SeenOffer {
    /// Everything that is held, for everybody or for a session.
    fn all(&self) -> impl Iterator<Item = &HeldSince> {
        let own = self.own.iter().filter(|own| !self.held.iter().any(|held| is_same_name(&held.held, &own.held)));
        self.held.iter().chain(own)
    }

    /// Remembers what is held, and gives what was not before.
    fn note(&mut self, held: &[HeldItem], listed_for: ListedFor) -> Vec<HeldItem> {
        let now = SystemTime::now();
        let before = match listed_for {
            // Made anew from this listing: what the server offers no longer is held no longer.
            ListedFor::Everybody => std::mem::take(&mut self.held),
            ListedFor::Session => self.held.iter().chain(&self.own).cloned().collect(),
        };
        let before: HashMap<(ListKind, &LocalName), &HeldSince> =
            before.iter().map(|before| ((before.held.kind, &before.held.item.key), before)).collect();
        let mut news = Vec::new();
        for item in held {
            let known = before.get(&(item.kind, &item.item.key));
            let known = known.filter(|before| before.held.item.digest == item.item.digest);
            let since = known.map(|before| before.since);
            if since.is_none() && !item.rejected {
                news.push(item.clone());
            }
            let entry = HeldSince { held: item.clone(), since: since.unwrap_or(now) };
            match listed_for {
                ListedFor::Everybody => self.held.push(entry),
                // Known from the shared link or from another session.
                ListedFor::Session if since.is_some() => {}
                ListedFor::Session => {
                    self.own.retain(|own| !is_same_name(&own.held, item));
                    if self.own.len() < MOST_OWN {
                        self.own.push(entry);
                    }
                }
            }
        }
        news
    }
}

fn is_same_name(one: &HeldItem, other: &HeldItem) -> bool {
    one.kind == other.kind && one.item.key == other.item.key
}
