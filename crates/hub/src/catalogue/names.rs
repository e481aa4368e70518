//! Tool and prompt names, both ways, by table.
//!
//! The tables are persistent maps: a commit of one server shares with the state before it everything that server did
//! not touch.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use rpds::HashTrieMapSync;
use tidings_proto::names::public_name;
use tidings_proto::{ListKind, LocalName, PublicName};

use super::offer::ServerOffer;
use super::reserved::ReservedNames;
use crate::ServerId;

/// Where a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRoute {
    /// The server whose item it is.
    pub server: ServerId,
    /// What that server calls it.
    pub local: LocalName,
}

/// The public names of one server's items, in the order of its list.
pub type ShownNames = Arc<[PublicName]>;

/// Public names, and the other spellings that are understood.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    public: HashTrieMapSync<PublicName, ItemRoute>,
    /// Everybody who would answer to another spelling; only one who is alone does.
    aliases: HashTrieMapSync<PublicName, Vec<ItemRoute>>,
    /// Items that could not have the name they wanted, with the one they have. There are few.
    displaced: HashTrieMapSync<NameClaim, PublicName>,
    /// Names that only what is built in may have.
    pub(super) reserved: ReservedNames,
}

/// An item of a server that has another name now.
pub type RenamedItem = (ServerId, LocalName, PublicName);

/// One item of one server.
type NameClaim = (ServerId, LocalName);

/// A table after a change of one server.
#[derive(Debug)]
pub struct UpdatedNames {
    /// Names as they are after the change.
    pub table: NameTable,
    /// The names that server's items are shown under.
    pub shown: ShownNames,
    /// Items of others that have another name now.
    pub renamed: Vec<RenamedItem>,
}

impl NameTable {
    /// The table of one list over all servers, in their order: what is built in keeps its names, then the first configured
    /// wins a collision. With it the names that are shown, server by server.
    pub fn new(offers: &[Arc<ServerOffer>], kind: ListKind) -> (Self, Vec<ShownNames>) {
        let mut table = Self { reserved: ReservedNames::of(offers, kind), ..Self::default() };
        let mut shown = vec![ShownNames::default(); offers.len()];
        let (first, last): (Vec<usize>, Vec<usize>) = (0..offers.len()).partition(|place| offers[*place].built_in);
        for place in first.into_iter().chain(last) {
            let (offer, items) = (&offers[place], &offers[place].list(kind).items);
            shown[place] = items.iter().map(|item| table.add_public(offer, &item.key)).collect();
            for item in items {
                table.add_aliases(offer, &item.key);
            }
        }
        (table, shown)
    }

    /// The table after one server's list changed; `offers` are all of them after it. Only what the change reaches is named
    /// anew: items that want a name which came or went, and those that want what these may take or leave. `None` where
    /// that can not be told: then everything must be named.
    pub fn update(
        &self,
        before: Option<&ServerOffer>,
        after: Option<&ServerOffer>,
        offers: &[Arc<ServerOffer>],
        kind: ListKind,
    ) -> Option<UpdatedNames> {
        // Another reserved name can move an item of every server.
        if ReservedNames::of(offers, kind) != self.reserved {
            return None;
        }
        let same_naming = |(a, b): (&ServerOffer, &ServerOffer)| {
            (&a.name, &a.prefix, a.bare, a.built_in) == (&b.name, &b.prefix, b.bare, b.built_in)
        };
        // Another prefix or style of names moves all items of the server, so none of them counts as kept.
        let anew = !before.zip(after).is_none_or(same_naming);
        let kept = |offer: Option<&ServerOffer>, key: &LocalName| {
            !anew && offer.is_some_and(|offer| offer.list(kind).get(key).is_some())
        };
        let mut table = self.clone();
        let mut reach = ChangeReach { offers, ..ChangeReach::default() };
        for item in before.iter().flat_map(|before| &before.list(kind).items).filter(|item| !kept(after, &item.key)) {
            // Never taken: without an offer there are no items to walk over. The same holds below.
            let Some(before) = before else { continue };
            // All old names are taken out before any new one is put in: an item may take the name that another of the
            // same server left.
            reach.names.push(table.take_public(before, &item.key));
            table.remove_aliases(before, &item.key);
        }
        for item in after.iter().flat_map(|after| &after.list(kind).items).filter(|item| !kept(before, &item.key)) {
            let Some(after) = after else { continue };
            reach.names.extend(table.candidates(after, &item.key));
            reach.items.insert(place_of(after, &item.key));
        }
        reach.spread(&table);
        let renamed = table.name_reached(&reach, after.map(|after| after.server), |key| !kept(before, key))?;
        let shown =
            |after: &ServerOffer| after.list(kind).items.iter().map(|item| table.shown_as(after, &item.key)).collect();
        let shown = after.map(shown).unwrap_or_default();
        Some(UpdatedNames { table, shown, renamed })
    }

    /// Names the items that a change reaches, in the order in which everything is named. Gives back what others are called
    /// now, where that is new.
    fn name_reached(
        &mut self,
        reach: &ChangeReach<'_>,
        changed: Option<ServerId>,
        is_new: impl Fn(&LocalName) -> bool,
    ) -> Option<Vec<RenamedItem>> {
        let mut before = Vec::with_capacity(reach.items.len());
        for (_, server, local) in &reach.items {
            let offer = reach.offer(*server)?;
            let is_new = Some(*server) == changed && is_new(local);
            // Items of other servers leave the table first, too: they are named again below, in the order in which
            // everything is named, so the result is that of a table made from nothing.
            before.push((!is_new).then(|| self.take_public(offer, local)));
        }
        let mut renamed = Vec::new();
        for ((_, server, local), before) in reach.items.iter().zip(before) {
            let offer = reach.offer(*server)?;
            let name = self.add_public(offer, local);
            // Beyond its two names an item takes one that nobody is asked about.
            if !self.candidates(offer, local).any(|candidate| candidate == name) {
                return None;
            }
            if before.is_none() {
                self.add_aliases(offer, local);
            }
            if before.as_ref() != Some(&name) && Some(*server) != changed {
                renamed.push((*server, local.clone(), name));
            }
        }
        Some(renamed)
    }

    /// What an item is shown as, by its own wish or another name.
    fn shown_as(&self, offer: &ServerOffer, local: &LocalName) -> PublicName {
        // Nearly always empty; the check saves an allocation for the key on every item of a large list.
        if !self.displaced.is_empty()
            && let Some(name) = self.displaced.get(&(offer.server, local.clone()))
        {
            return name.clone();
        }
        self.wanted_name(offer, local)
    }

    /// Takes an item's name away.
    fn take_public(&mut self, offer: &ServerOffer, local: &LocalName) -> PublicName {
        let name = self.shown_as(offer, local);
        if !self.displaced.is_empty() {
            self.displaced.remove_mut(&(offer.server, local.clone()));
        }
        self.public.remove_mut(&name);
        name
    }

    fn add_public(&mut self, offer: &ServerOffer, local: &LocalName) -> PublicName {
        let mut name = self.wanted_name(offer, local);
        if self.public.contains_key(&name) {
            name = self.free_name(offer, local);
            self.displaced.insert_mut((offer.server, local.clone()), name.clone());
        }
        self.public.insert_mut(name.clone(), ItemRoute { server: offer.server, local: local.clone() });
        name
    }

    /// The names that an item takes where it can: its own, then with the prefix.
    fn candidates(&self, offer: &ServerOffer, local: &LocalName) -> impl Iterator<Item = PublicName> + use<> {
        let second = offer.bare.then(|| public_name(&offer.prefix, local));
        std::iter::once(self.wanted_name(offer, local)).chain(second)
    }

    /// The name that an item has unless somebody was first.
    fn wanted_name(&self, offer: &ServerOffer, local: &LocalName) -> PublicName {
        match offer.bare && (offer.built_in || self.reserved.owner(local.as_str()).is_none()) {
            true => PublicName::unchanged(local),
            false => public_name(&offer.prefix, local),
        }
    }

    /// A name for an item whose own is taken.
    fn free_name(&self, offer: &ServerOffer, local: &LocalName) -> PublicName {
        let name = public_name(&offer.prefix, local);
        if !self.public.contains_key(&name) {
            return name;
        }
        // `a` + `b__c` and `a__b` + `c` meet here; the text of both parts tells them apart. A server that guesses the
        // result may have taken that as well, so the next one is tried.
        let mut text = format!("{}\0{local}", offer.name);
        loop {
            // A hash and not a counter, so that the item has the same name after a restart.
            let digest = blake3::hash(text.as_bytes()).to_hex();
            let name = public_name(&offer.prefix, &LocalName::new(format!("{local}_{}", &digest[..8])));
            if !self.public.contains_key(&name) {
                return name;
            }
            text.push('\0');
        }
    }

    fn add_aliases(&mut self, offer: &ServerOffer, local: &LocalName) {
        let route = ItemRoute { server: offer.server, local: local.clone() };
        for alias in spellings(offer, local) {
            let mut claims = self.aliases.get(&alias).cloned().unwrap_or_default();
            // Some spellings of one item may be equal: two claims of its own would make it ambiguous.
            if !claims.contains(&route) {
                claims.push(route.clone());
                self.aliases.insert_mut(alias, claims);
            }
        }
    }

    fn remove_aliases(&mut self, offer: &ServerOffer, local: &LocalName) {
        for alias in spellings(offer, local) {
            let Some(claims) = self.aliases.get(&alias) else { continue };
            let left: Vec<ItemRoute> =
                claims.iter().filter(|route| route.server != offer.server || route.local != *local).cloned().collect();
            match left.is_empty() {
                true => self.aliases.remove_mut(&alias),
                false => {
                    self.aliases.insert_mut(alias, left);
                    true
                }
            };
        }
    }

    /// Whether everybody is shown something under this name.
    pub(super) fn is_shown(&self, name: &PublicName) -> bool {
        self.public.contains_key(name)
    }

    /// Where a name leads, in any spelling that is understood.
    pub fn route(&self, name: &str) -> Option<&ItemRoute> {
        self.route_among(name, |_| true)
    }

    /// As [`Self::route`], where only some items are there: the others are as if they had no names.
    pub(super) fn route_among(&self, name: &str, there: impl Fn(&ItemRoute) -> bool) -> Option<&ItemRoute> {
        // A public name wins over any alias: it is what clients were shown.
        self.public.get(name).filter(|route| there(route)).or_else(|| {
            // Also for those who may not use what is built in: nobody else answers to its names.
            if self.reserved.owner(name).is_some() {
                return None;
            }
            let mut claims = self.aliases.get(name)?.iter().filter(|route| there(route));
            // An alias that two servers claim leads nowhere: a guess could call the wrong tool.
            claims.next().filter(|_| claims.next().is_none())
        })
    }
}

/// Which names a change of offers can touch: only those are worked out again.
#[derive(Default)]
struct ChangeReach<'a> {
    offers: &'a [Arc<ServerOffer>],
    /// Names that came, went, or may do so, and were not looked at yet.
    names: Vec<PublicName>,
    /// Items that are named anew, in the order in which everything is named.
    items: BTreeSet<NamingOrder>,
}

/// An item in the order in which everything is named: `false`, for what is built in, comes first.
type NamingOrder = (bool, ServerId, LocalName);

impl ChangeReach<'_> {
    fn offer(&self, server: ServerId) -> Option<&ServerOffer> {
        self.offers.binary_search_by_key(&server, |offer| offer.server).ok().map(|place| &*self.offers[place])
    }

    /// Whoever wants one of the names is reached, and then so is what it has and could have.
    fn spread(&mut self, table: &NameTable) {
        let mut seen = HashSet::new();
        while let Some(name) = self.names.pop() {
            // Names can claim each other in a circle.
            if !seen.insert(name.clone()) {
                continue;
            }
            let holder = table.public.get(&name).into_iter();
            // The two names that an item may want are among its spellings, so the aliases tell who wants a name.
            let claims = table.aliases.get(&name).into_iter().flatten();
            for ItemRoute { server, local } in holder.chain(claims).cloned().collect::<Vec<_>>() {
                let Some(offer) = self.offer(server) else { continue };
                let has = table.shown_as(offer, &local);
                let wants: Vec<PublicName> = table.candidates(offer, &local).chain([has]).collect();
                // A claim from before may be of an item that does not want the name any more.
                if wants.contains(&name) && self.items.insert(place_of(offer, &local)) {
                    self.names.extend(wants);
                }
            }
        }
    }
}

fn place_of(offer: &ServerOffer, local: &LocalName) -> NamingOrder {
    (!offer.built_in, offer.server, local.clone())
}

/// Other ways to say the same name, some of which may be equal.
fn spellings(offer: &ServerOffer, local: &LocalName) -> [PublicName; 4] {
    [
        public_name(&offer.prefix, local),
        PublicName::new(format!("{}:{local}", offer.name)),
        // `mcp_registry_exec` names tools so.
        PublicName::new(format!("mcp_{}_{local}", offer.prefix)),
        PublicName::unchanged(local),
    ]
}
