//! Tool and prompt names, both ways, by table.
//!
//! The tables are persistent maps: a commit of one server shares with the state before it everything that server did
//! not touch.

use std::sync::Arc;

use rpds::HashTrieMapSync;
use tidings_proto::ListKind;
use tidings_proto::names::public_name;

use super::offer::ServerOffer;
use crate::ServerId;

/// Where a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which server.
    pub server: ServerId,
    /// What that server calls it.
    pub local: Box<str>,
}

/// The public names of one server's items, in the order of its list; none where an item is hidden.
pub type ShownNames = Arc<[Option<Box<str>>]>;

/// Public names, and the other spellings that are understood.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    public: HashTrieMapSync<Box<str>, Route>,
    /// Everybody who would answer to another spelling; only one who is alone does.
    aliases: HashTrieMapSync<Box<str>, Vec<Route>>,
    /// Whether some item could not have the name it wanted. Then names depend on the order of everything.
    displaced: bool,
}

impl NameTable {
    /// The table of one list over all servers, in their order: the first configured wins a collision, and what is built
    /// in gives way to all others. With it the names that are shown, server by server.
    pub fn new(offers: &[Arc<ServerOffer>], kind: ListKind) -> (Self, Vec<ShownNames>) {
        let mut table = Self::default();
        let mut shown = vec![ShownNames::default(); offers.len()];
        let (last, first): (Vec<usize>, Vec<usize>) = (0..offers.len()).partition(|place| offers[*place].yields);
        for place in first.into_iter().chain(last) {
            let (offer, items) = (&offers[place], &offers[place].list(kind).items);
            shown[place] = items.iter().map(|item| table.add_public(offer, &item.key)).collect();
            for (item, _) in items.iter().zip(&*shown[place]).filter(|(_, name)| name.is_some()) {
                table.add_aliases(offer, &item.key);
            }
        }
        (table, shown)
    }

    /// The table after one server's list changed, with the names that server's items are shown under. `None` when the
    /// change reaches into the names of others: then everything must be named anew.
    pub fn update(
        &self,
        before: Option<&ServerOffer>,
        after: Option<&ServerOffer>,
        kind: ListKind,
    ) -> Option<(Self, ShownNames)> {
        let same_naming = |(a, b): (&ServerOffer, &ServerOffer)| {
            (&a.name, &a.prefix, a.bare, a.yields) == (&b.name, &b.prefix, b.bare, b.yields)
        };
        if self.displaced || !before.zip(after).is_none_or(same_naming) {
            return None;
        }
        let mut table = self.clone();
        if let Some(before) = before {
            for item in &before.list(kind).items {
                if after.is_none_or(|after| after.list(kind).get(&item.key).is_none()) {
                    table.public.remove_mut(&*wanted_name(before, &item.key));
                    table.remove_aliases(before, &item.key);
                }
            }
        }
        let Some(after) = after else { return Some((table, Arc::default())) };
        let mut shown = Vec::with_capacity(after.list(kind).items.len());
        for item in &after.list(kind).items {
            if before.is_some_and(|before| before.list(kind).get(&item.key).is_some()) {
                shown.push(Some(wanted_name(after, &item.key)));
                continue;
            }
            shown.push(table.add_public(after, &item.key));
            if table.displaced {
                return None;
            }
            table.add_aliases(after, &item.key);
        }
        Some((table, shown.into()))
    }

    /// `None` when the item gives way to another that has its name.
    fn add_public(&mut self, offer: &ServerOffer, local: &str) -> Option<Box<str>> {
        if offer.yields && self.public.contains_key(&wanted_name(offer, local)) {
            self.displaced = true;
            return None;
        }
        let name = self.free_name(offer, local);
        self.public.insert_mut(name.clone(), Route { server: offer.server, local: local.into() });
        Some(name)
    }

    fn free_name(&mut self, offer: &ServerOffer, local: &str) -> Box<str> {
        let wanted = wanted_name(offer, local);
        if !self.public.contains_key(&wanted) {
            return wanted;
        }
        self.displaced = true;
        let name = public_name(&offer.prefix, local);
        if !self.public.contains_key(name.as_str()) {
            return name.into();
        }
        // `a` + `b__c` and `a__b` + `c` meet here; the text of both parts tells them apart. A server that guesses the
        // result may have taken that as well, so the next one is tried.
        let mut text = format!("{}\0{local}", offer.name);
        loop {
            let digest = blake3::hash(text.as_bytes()).to_hex();
            let name = public_name(&offer.prefix, &format!("{local}_{}", &digest[..8]));
            if !self.public.contains_key(name.as_str()) {
                return name.into();
            }
            text.push('\0');
        }
    }

    fn add_aliases(&mut self, offer: &ServerOffer, local: &str) {
        let route = Route { server: offer.server, local: local.into() };
        for alias in spellings(offer, local) {
            let mut claims = self.aliases.get(&*alias).cloned().unwrap_or_default();
            if !claims.contains(&route) {
                claims.push(route.clone());
                self.aliases.insert_mut(alias, claims);
            }
        }
    }

    fn remove_aliases(&mut self, offer: &ServerOffer, local: &str) {
        for alias in spellings(offer, local) {
            let Some(claims) = self.aliases.get(&*alias) else { continue };
            let left: Vec<Route> =
                claims.iter().filter(|route| route.server != offer.server || &*route.local != local).cloned().collect();
            match left.is_empty() {
                true => self.aliases.remove_mut(&*alias),
                false => {
                    self.aliases.insert_mut(alias, left);
                    true
                }
            };
        }
    }

    /// Where a name leads, in any spelling that is understood.
    pub fn route(&self, name: &str) -> Option<&Route> {
        self.route_among(name, |_| true)
    }

    /// As [`Self::route`], where only some servers are there: the others are as if they had no names.
    pub(super) fn route_among(&self, name: &str, there: impl Fn(ServerId) -> bool) -> Option<&Route> {
        self.public.get(name).filter(|route| there(route.server)).or_else(|| {
            let mut claims = self.aliases.get(name)?.iter().filter(|route| there(route.server));
            claims.next().filter(|_| claims.next().is_none())
        })
    }
}

/// The name that an item has unless somebody was first.
fn wanted_name(offer: &ServerOffer, local: &str) -> Box<str> {
    match offer.bare {
        true => local.into(),
        false => public_name(&offer.prefix, local).into(),
    }
}

/// Other ways to say the same name, some of which may be equal.
fn spellings(offer: &ServerOffer, local: &str) -> [Box<str>; 4] {
    [
        public_name(&offer.prefix, local).into(),
        format!("{}:{local}", offer.name).into(),
        format!("mcp_{}_{local}", offer.prefix).into(),
        local.into(),
    ]
}
