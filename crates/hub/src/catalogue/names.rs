//! Tool and prompt names, both ways, by table.

use std::collections::HashMap;
use std::sync::Arc;

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

/// Public names, and the other spellings that are understood.
#[derive(Debug, Default)]
pub struct NameTable {
    public: HashMap<Box<str>, Route>,
    /// `None` where two servers would answer.
    aliases: HashMap<Box<str>, Option<Route>>,
    shown: HashMap<(ServerId, Box<str>), Box<str>>,
}

impl NameTable {
    /// The table of one list over all servers, in their order: the first configured wins a collision.
    pub fn new(offers: &[Arc<ServerOffer>], kind: ListKind) -> Self {
        let mut table = Self::default();
        if !matches!(kind, ListKind::Tools | ListKind::Prompts) {
            return table;
        }
        for offer in offers {
            for item in &offer.list(kind).items {
                let route = Route { server: offer.server, local: item.key.clone() };
                let name = table.free_name(offer, &item.key);
                table.shown.insert((offer.server, item.key.clone()), name.clone());
                table.public.insert(name, route);
            }
        }
        for offer in offers {
            for item in &offer.list(kind).items {
                let route = Route { server: offer.server, local: item.key.clone() };
                for alias in [
                    public_name(&offer.prefix, &item.key),
                    format!("{}:{}", offer.name, item.key),
                    format!("mcp_{}_{}", offer.prefix, item.key),
                    item.key.to_string(),
                ] {
                    table.add_alias(alias, &route);
                }
            }
        }
        table
    }

    fn free_name(&self, offer: &ServerOffer, local: &str) -> Box<str> {
        if offer.bare && !self.public.contains_key(local) {
            return local.into();
        }
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

    fn add_alias(&mut self, alias: String, route: &Route) {
        if self.public.contains_key(alias.as_str()) {
            return;
        }
        self.aliases
            .entry(alias.into())
            .and_modify(|known| {
                if known.as_ref() != Some(route) {
                    *known = None;
                }
            })
            .or_insert_with(|| Some(route.clone()));
    }

    /// Where a name leads, in any spelling that is understood.
    pub fn route(&self, name: &str) -> Option<Route> {
        self.public.get(name).or_else(|| self.aliases.get(name)?.as_ref()).cloned()
    }

    /// The public name of something.
    pub fn public(&self, server: ServerId, local: &str) -> Option<&str> {
        self.shown.get(&(server, Box::from(local))).map(AsRef::as_ref)
    }
}
