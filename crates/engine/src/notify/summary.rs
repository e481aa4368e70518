//! For clients that ask for it (`dev.tidings/changes`): what changed since they were last told.
//!
//! Such a follower remembers which state it was told of, by number; the states themselves are kept only while somebody is
//! behind, and only a few of them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_hub::catalogue::{CatalogueSnapshot, ListDifference, OfferItem, OfferList, ServerOffer};
use tidings_hub::ledger::{FollowerId, Topic};
use tidings_proto::item::ItemView;
use tidings_proto::{FieldView, ListKind, Revision, meta};

use crate::client::principal::ViewKey;

/// How many old states are kept. A follower that is further behind is told that it changed, and not what.
const KEPT: usize = 16;
/// How many names each list of a summary may hold.
const NAMES: usize = 200;
/// How many summaries are remembered.
const REMEMBERED: usize = 32;
/// What is said when it is not known what changed.
pub(crate) const FORGOTTEN: &str = r#"{"added":[],"changed":[],"removed":[],"truncated":true}"#;

/// Which state each follower was told of.
#[derive(Default)]
pub(crate) struct SummaryCursors {
    /// The number of the current state.
    current: u64,
    /// The old states that somebody was told of last, by number, the oldest first. Bounded: the oldest goes.
    old: VecDeque<(u64, Arc<CatalogueSnapshot>)>,
    followers: HashMap<FollowerId, FollowerPlace>,
    /// The last summaries, since one change is told to many. Bounded: the oldest goes.
    summaries: VecDeque<(Asked, Arc<str>)>,
}

/// What a summary depends on: two states, who sees them, and a topic.
type Asked = (u64, u64, ViewKey, Topic);

struct FollowerPlace {
    view_key: ViewKey,
    /// `None` as long as it was told nothing.
    state: Option<u64>,
}

/// What a follower was told of before, at the moment of a delivery.
pub(crate) enum Basis {
    /// It does not ask, or has no earlier state: the plain notification.
    None,
    /// It is too far behind.
    Forgotten,
    /// The states to compare.
    Known(Interval),
}

/// From one state to another, as some clients see them.
pub(crate) struct Interval {
    then: (u64, Arc<CatalogueSnapshot>),
    now: (u64, Arc<CatalogueSnapshot>),
    view_key: ViewKey,
}

impl SummaryCursors {
    /// Begins with the current state, or with nothing.
    pub(crate) fn follow(&mut self, id: FollowerId, view_key: ViewKey, knows_current: bool) {
        let state = knows_current.then_some(self.current);
        self.followers.insert(id, FollowerPlace { view_key, state });
    }

    pub(crate) fn unfollow(&mut self, id: FollowerId) {
        self.followers.remove(&id);
        // States are large; nobody is left who could be told of a difference to them.
        if self.followers.is_empty() {
            self.old.clear();
            self.summaries.clear();
        }
    }

    /// A new state takes the place of `old`. Whoever is owed nothing by it moves along.
    pub(crate) fn commit(&mut self, old: Arc<CatalogueSnapshot>, owed: impl Fn(FollowerId) -> bool) {
        let before = self.current;
        self.current += 1;
        if self.followers.is_empty() {
            return;
        }
        for (id, place) in &mut self.followers {
            // Whoever was told nothing yet has no state to move along from.
            if place.state.is_some() && !owed(*id) {
                place.state = Some(self.current);
            }
        }
        let needed: HashSet<u64> = self.followers.values().filter_map(|place| place.state).collect();
        self.old.push_back((before, old));
        // Only states that somebody was told of last can be the beginning of a summary.
        self.old.retain(|(state, _)| needed.contains(state));
        if self.old.len() > KEPT {
            self.old.pop_front();
        }
    }

    /// A follower is told of everything up to now.
    pub(crate) fn deliver(&mut self, id: FollowerId, now: &Arc<CatalogueSnapshot>) -> Basis {
        let Some(place) = self.followers.get_mut(&id) else { return Basis::None };
        // Also when the old state is forgotten: the next summary begins here.
        let Some(state) = place.state.replace(self.current) else { return Basis::None };
        let at = self.old.binary_search_by_key(&state, |(number, _)| *number);
        match at.ok().and_then(|at| self.old.get(at)) {
            Some(then) => {
                let now = (self.current, Arc::clone(now));
                Basis::Known(Interval { then: then.clone(), now, view_key: place.view_key.clone() })
            }
            None => Basis::Forgotten,
        }
    }

    /// A summary that was made for somebody else.
    pub(crate) fn summary(&self, interval: &Interval, topic: Topic) -> Option<Arc<str>> {
        let asked = interval.asked(topic);
        // Newest first: many followers ask for the same change in a row.
        self.summaries.iter().rev().find(|(known, _)| *known == asked).map(|(_, text)| Arc::clone(text))
    }

    pub(crate) fn remember(&mut self, interval: &Interval, topic: Topic, text: &Arc<str>) {
        self.summaries.push_back((interval.asked(topic), Arc::clone(text)));
        if self.summaries.len() > REMEMBERED {
            self.summaries.pop_front();
        }
    }
}

impl Interval {
    fn asked(&self, topic: Topic) -> Asked {
        (self.then.0, self.now.0, self.view_key.clone(), topic)
    }

    /// What stands under [`meta::CHANGES`] in the notification of a topic.
    pub(crate) fn summary(&self, topic: Topic, view: FieldView) -> Arc<str> {
        let seen = |state: &Arc<CatalogueSnapshot>| state.seen_as(&self.view_key.scope, self.view_key.shape.as_ref());
        summarise(&seen(&self.then.1), &seen(&self.now.1), topic, self.view_key.revision, view).to_string().into()
    }
}

/// Whether a client asks for summaries, by what it declares.
pub(crate) fn asked(capabilities: &Value) -> bool {
    // Modern clients declare extensions, legacy ones only have `experimental`.
    ["extensions", "experimental"].into_iter().any(|group| capabilities[group][meta::CHANGES].is_object())
}

/// One item of a list as a client may see it.
type Seen<'a> = (ListKind, &'a ServerOffer, &'a OfferItem);

/// The difference between two states in the eyes of a client: by the names it knows, and the members it sees.
fn summarise(
    then: &CatalogueSnapshot,
    now: &CatalogueSnapshot,
    topic: Topic,
    revision: Revision,
    view: FieldView,
) -> Value {
    let (mut gone, mut come) = (BTreeMap::new(), BTreeMap::new());
    for kind in ListKind::ALL.into_iter().filter(|kind| Topic::of(*kind) == topic) {
        only_in(then, now, kind, &mut gone);
        only_in(now, then, kind, &mut come);
    }
    // An item that moved from one server to another under the same name is one that changed, not one that came and
    // went.
    let added: Vec<&String> = come.keys().filter(|name| !gone.contains_key(*name)).collect();
    let removed: Vec<&String> = gone.keys().filter(|name| !come.contains_key(*name)).collect();
    let changed: Vec<Value> = gone
        .iter()
        .filter_map(|(name, old)| {
            let new = come.get(name)?;
            let fields = match now.is_shaped() {
                // What a profile makes of an item may be the same, whatever its server changed.
                true => fields_shown(shown(then, old, revision)?, shown(now, new, revision)?, old.0),
                false => fields(name, old, new, revision, view),
            };
            (!fields.is_empty()).then(|| json!({ "name": name, "fields": fields }))
        })
        .collect();
    let truncated = [added.len(), removed.len(), changed.len()].into_iter().any(|count| count > NAMES);
    let mut summary = json!({
        "added": &added[..added.len().min(NAMES)],
        "removed": &removed[..removed.len().min(NAMES)],
        "changed": &changed[..changed.len().min(NAMES)],
    });
    if truncated {
        summary["truncated"] = true.into();
    }
    summary
}

/// The items of one state that are not just so in another, by the names that clients know.
fn only_in<'a>(
    here: &'a CatalogueSnapshot,
    there: &CatalogueSnapshot,
    kind: ListKind,
    out: &mut BTreeMap<String, Seen<'a>>,
) {
    for offer in here.offers().iter().filter(|offer| offer.shows(kind)) {
        // Other URIs are other names, so nothing of that server is the same for a client.
        let twin = there.offer(offer.server).filter(|twin| twin.shows(kind) && twin.uris == offer.uris);
        for item in &offer.list(kind).items {
            let Some(name) = public(here, offer, kind, item) else { continue };
            let same = twin.is_some_and(|twin| {
                let other = twin.list(kind).get(&item.key).filter(|other| other.digest == item.digest);
                // The name counts too: an item whose name changed is new to clients, though its definition is not.
                other.and_then(|other| public(there, twin, kind, other)).as_ref() == Some(&name)
            });
            if !same {
                out.insert(name, (kind, offer, item));
            }
        }
    }
}

/// What clients call an item; `None` for one that is hidden because another server has its name.
fn public(snapshot: &CatalogueSnapshot, offer: &ServerOffer, kind: ListKind, item: &OfferItem) -> Option<String> {
    if kind.by_uri() {
        return Some(offer.uris.outward(item.key.as_str()));
    }
    snapshot.public_name(kind, offer.server, &item.key).map(ToString::to_string)
}

/// An item just as a client of this revision reads it.
fn shown(snapshot: &CatalogueSnapshot, (kind, offer, item): &Seen<'_>, revision: Revision) -> Option<Bytes> {
    snapshot.shown_item(*kind, offer.server, &item.key, revision)
}

fn fields_shown(old: Bytes, new: Bytes, kind: ListKind) -> Vec<String> {
    let list = |item: Bytes| OfferList::new(OfferItem::read(kind, item, false).into_iter().collect(), 0, true);
    let difference = ListDifference::between(&list(old), &list(new));
    difference.changed.into_iter().flat_map(|item| item.fields).collect()
}

/// The members that differ where a client of this revision looks.
fn fields(name: &str, old: &Seen<'_>, new: &Seen<'_>, revision: Revision, view: FieldView) -> Vec<String> {
    let seen = |(kind, offer, item): &Seen<'_>| {
        let (kind, makes_tasks) = (*kind, offer.makes_tasks);
        let rendered = ItemView { kind, revision, view, uris: &offer.uris, makes_tasks }.render(&item.raw, name);
        let read = OfferItem::read(kind, rendered, false).into_iter();
        // Compared without `size` and time, as the ledger does: a summary must not name a change that was none.
        let read = read.map(|read| if item.has_details { read.with_details() } else { read });
        OfferList::new(read.collect(), 0, true)
    };
    let difference = ListDifference::between(&seen(old), &seen(new));
    difference.changed.into_iter().flat_map(|item| item.fields).collect()
}

#[cfg(test)]
mod tests {
    use tidings_hub::client_profile::{SchemaRules, ViewShape};
    use tidings_hub::scope::AccessScope;

    use super::*;

    const ALWAYS: FollowerId = FollowerId(1);
    const NEVER: FollowerId = FollowerId(2);

    fn view_key() -> ViewKey {
        ViewKey { revision: Revision::MODERN, scope: AccessScope::everything(), shape: None }
    }

    fn state() -> Arc<CatalogueSnapshot> {
        Arc::new(CatalogueSnapshot::new(Vec::new(), FieldView::Strict))
    }

    /// Two followers: one is owed something by every commit, the other by none.
    fn followed() -> SummaryCursors {
        let mut told = SummaryCursors::default();
        told.follow(ALWAYS, view_key(), true);
        told.follow(NEVER, view_key(), true);
        told
    }

    // S4.4
    #[test]
    fn the_basis_is_the_state_that_was_told_last() {
        let mut told = followed();
        let states: Vec<_> = (0..40).map(|_| state()).collect();
        told.commit(Arc::clone(&states[0]), |id| id == ALWAYS);
        for delivered in 1..states.len() - 1 {
            let basis = told.deliver(ALWAYS, &states[delivered]);
            assert!(matches!(basis, Basis::Known(since) if Arc::ptr_eq(&since.then.1, &states[delivered - 1])));
            told.commit(Arc::clone(&states[delivered]), |id| id == ALWAYS);
        }
        // One that is far behind in commits and owed nothing is not behind at all.
        told.commit(state(), |_| true);
        assert!(matches!(told.deliver(NEVER, &state()), Basis::Known(_)));
    }

    // S4.4
    #[test]
    fn one_state_serves_however_many_commits_it_is_behind() {
        let mut told = followed();
        let first = state();
        told.commit(Arc::clone(&first), |id| id == ALWAYS);
        for _ in 0..KEPT * 3 {
            told.commit(state(), |id| id == ALWAYS);
            assert_eq!(told.old.len(), 1, "only states that somebody is at are kept");
        }
        assert!(matches!(told.deliver(ALWAYS, &state()), Basis::Known(since) if Arc::ptr_eq(&since.then.1, &first)));
    }

    // S4.4
    #[test]
    fn old_states_are_bounded_and_whoever_needs_a_lost_one_is_told_so() {
        let mut told = SummaryCursors::default();
        let count = KEPT as u64 + 1;
        for follower in 0..count {
            told.follow(FollowerId(follower), view_key(), true);
            told.commit(state(), |_| true);
            assert!(told.old.len() <= KEPT);
        }
        assert!(matches!(told.deliver(FollowerId(0), &state()), Basis::Forgotten));
        for follower in 1..count {
            assert!(matches!(told.deliver(FollowerId(follower), &state()), Basis::Known(_)));
        }
        for follower in 0..count {
            told.unfollow(FollowerId(follower));
        }
        assert!(told.old.is_empty());
    }

    // S4.4
    #[test]
    fn whoever_was_told_nothing_or_does_not_ask_has_no_basis() {
        let mut told = SummaryCursors::default();
        told.follow(ALWAYS, view_key(), false);
        told.commit(state(), |_| true);
        assert!(matches!(told.deliver(ALWAYS, &state()), Basis::None), "everything is new");
        told.commit(state(), |_| true);
        assert!(matches!(told.deliver(ALWAYS, &state()), Basis::Known(_)));
        assert!(matches!(told.deliver(NEVER, &state()), Basis::None));
    }

    // reach 2
    #[test]
    fn what_a_profile_leaves_out_is_no_change_for_its_client() {
        let state = |title: &str, output: &str, described: &str| {
            let tool = |name: &str, rest: Value| {
                let mut tool = json!({ "name": name, "inputSchema": { "type": "object" } });
                tool.as_object_mut()
                    .into_iter()
                    .for_each(|tool| tool.extend(rest.as_object().cloned().unwrap_or_default()));
                OfferItem::read(ListKind::Tools, Bytes::from(tool.to_string()), false).ok()
            };
            let items = [
                tool("dropped", json!({ "outputSchema": { "type": output } })),
                tool("told", json!({ "title": title })),
                tool("widened", json!({ "inputSchema": { "type": "object", "anyOf": [{ "required": [described] }] } })),
            ];
            let offer = ServerOffer::new(tidings_hub::ServerId(0), "a")
                .offering(ListKind::Tools, items.into_iter().flatten().collect());
            Arc::new(CatalogueSnapshot::new(vec![Arc::new(offer)], FieldView::Strict))
        };
        let schema = SchemaRules { object_output: true, no_top_combinators: true, ..SchemaRules::default() };
        let shape = Arc::new(ViewShape { schema, ..ViewShape::default() });
        let (then, now) = (state("old", "string", "x"), state("new", "array", "y"));
        let of = |then: &CatalogueSnapshot, now: &CatalogueSnapshot| {
            summarise(then, now, Topic::Tools, Revision::MODERN, FieldView::Strict)["changed"].clone()
        };
        let everybody = of(&then, &now);
        assert_eq!(everybody.as_array().map(Vec::len), Some(3), "{everybody}");
        let theirs = of(&then.shaped(&shape), &now.shaped(&shape));
        let names: Vec<_> = theirs.as_array().into_iter().flatten().map(|item| item["name"].clone()).collect();
        assert_eq!(names, ["a__told", "a__widened"], "{theirs}");
        // The rule stands in the description, and what is required in the schema.
        assert_eq!(theirs[1]["fields"], json!(["description", "inputSchema"]));
    }

    #[test]
    fn only_an_object_declares_it() {
        assert!(asked(&json!({"extensions": {"dev.tidings/changes": {}}})));
        assert!(asked(&json!({"experimental": {"dev.tidings/changes": {"later": 1}}})));
        for other in
            [json!({}), json!(null), json!({"extensions": {"dev.tidings/changes": true}}), json!({"extensions": []})]
        {
            assert!(!asked(&other), "{other}");
        }
    }
}
