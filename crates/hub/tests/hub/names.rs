//! Names of tools and prompts: every one leads back to where it came from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{ItemRoute, NameTable, ServerOffer, ShownNames};
use tidings_proto::names::{self, MAX_PUBLIC_NAME};
use tidings_proto::{ListKind, LocalName, PublicName};

use crate::generate::{offer, offers};

fn public_name(prefix: &str, local: &str) -> String {
    names::public_name(prefix, &LocalName::new(local)).to_string()
}

fn items(offers: &[Arc<ServerOffer>]) -> Vec<(&ServerOffer, &str)> {
    let keys = |offer: &'_ Arc<ServerOffer>| offer.list(ListKind::Tools).items.len();
    offers
        .iter()
        .flat_map(|o| (0..keys(o)).map(move |i| (&**o, o.list(ListKind::Tools).items[i].key.as_str())))
        .collect()
}

fn route(offer: &ServerOffer, local: &str) -> ItemRoute {
    ItemRoute { server: offer.server, local: LocalName::new(local) }
}

/// A table with the names that it shows.
struct Named<'a> {
    table: NameTable,
    shown: Vec<ShownNames>,
    offers: &'a [Arc<ServerOffer>],
    kind: ListKind,
}

impl Named<'_> {
    fn route(&self, name: &str) -> Option<ItemRoute> {
        self.table.route(name).cloned()
    }

    fn public(&self, server: ServerId, local: &str) -> Option<&str> {
        let place = self.offers.iter().position(|offer| offer.server == server)?;
        let item = self.offers[place].list(self.kind).place(&LocalName::new(local))?;
        self.shown[place].get(item).map(PublicName::as_str)
    }
}

fn named(offers: &[Arc<ServerOffer>], kind: ListKind) -> Named<'_> {
    let (table, shown) = NameTable::new(offers, kind);
    Named { table, shown, offers, kind }
}

fn table(offers: &[Arc<ServerOffer>]) -> Named<'_> {
    named(offers, ListKind::Tools)
}

proptest! {
    #[test]
    fn every_public_name_leads_back_to_its_item_and_no_two_are_equal(offers in offers()) {
        for kind in [ListKind::Tools, ListKind::Prompts] {
            let table = named(&offers, kind);
            let mut seen = HashSet::new();
            for (offer, local) in items(&offers) {
                let public = table.public(offer.server, local).unwrap();
                prop_assert!(seen.insert(public.to_owned()), "{} stands twice", public);
                prop_assert_eq!(table.route(public), Some(route(offer, local)));
                if !offer.bare {
                    prop_assert!(public.len() <= MAX_PUBLIC_NAME, "{} is too long", public);
                    prop_assert!(public.starts_with(&public_name(&offer.prefix, "")[..offer.prefix.len()]));
                }
            }
        }
    }

    #[test]
    fn the_first_configured_wins_a_collision(offers in offers()) {
        let table = table(&offers);
        let mut first: HashMap<String, ItemRoute> = HashMap::new();
        for (offer, local) in items(&offers) {
            let wanted = if offer.bare { local.to_owned() } else { public_name(&offer.prefix, local) };
            first.entry(wanted).or_insert_with(|| route(offer, local));
        }
        for (wanted, owner) in first {
            // A name that another item was pushed to is taken as well; all others belong to the first who wants them.
            let moved = items(&offers).into_iter().any(|(o, l)| {
                table.public(o.server, l) == Some(&wanted) && route(o, l) != owner
            });
            if !moved {
                prop_assert_eq!(table.route(&wanted), Some(owner));
            }
        }
    }

    #[test]
    fn other_spellings_are_understood_where_only_one_item_is_meant(offers in offers()) {
        let table = table(&offers);
        let all = items(&offers);
        for (offer, local) in &all {
            for spelling in [
                public_name(&offer.prefix, local),
                format!("{}:{local}", offer.name),
                format!("mcp_{}_{local}", offer.prefix),
                (*local).to_owned(),
            ] {
                let shown = all.iter().any(|(o, l)| table.public(o.server, l) == Some(&spelling));
                let rivals = all.iter().filter(|(o, l)| {
                    spelling == public_name(&o.prefix, l)
                        || spelling == format!("{}:{l}", o.name)
                        || spelling == format!("mcp_{}_{l}", o.prefix)
                        || spelling == *l
                }).count();
                match table.route(&spelling) {
                    _ if shown => {}
                    found if rivals == 1 => prop_assert_eq!(found, Some(route(offer, local)), "{}", spelling),
                    found => prop_assert_eq!(found, None, "{} is ambiguous", spelling),
                }
            }
        }
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn prefixes_that_run_into_names_still_give_two_tools() {
    let offers = [offer(0, "a", false, &names(&["b__c"])), offer(1, "a__b", false, &names(&["c"]))];
    let table = table(&offers);
    assert_eq!(table.public(ServerId(0), "b__c"), Some("a__b__c"));
    assert_ne!(table.public(ServerId(1), "c"), Some("a__b__c"));
    assert_eq!(table.route("a__b__c"), Some(route(&offers[0], "b__c")));
}

/// A server that knows how collisions are resolved can offer the very name that another's tool would get.
#[test]
fn a_server_can_not_take_over_the_name_that_a_collision_gives() {
    let first = offer(0, "a", false, &names(&["b__c"]));
    let second = offer(1, "a__b", false, &names(&["c"]));
    let resolved = table(&[first, Arc::clone(&second)]).public(ServerId(1), "c").unwrap().to_owned();
    let squatter = offer(0, "a", false, &names(&["b__c", resolved.strip_prefix("a__").unwrap()]));
    let offers = [squatter, second];
    let table = table(&offers);
    let mut seen = HashSet::new();
    for (offer, local) in items(&offers) {
        let public = table.public(offer.server, local).unwrap();
        assert!(seen.insert(public), "{public} stands twice");
        assert_eq!(table.route(public), Some(route(offer, local)));
    }
}

#[test]
fn a_bare_name_of_two_prefixed_servers_is_nobodys() {
    let offers = [offer(0, "a", false, &names(&["x"])), offer(1, "b", false, &names(&["x", "y"]))];
    let table = table(&offers);
    assert_eq!(table.route("x"), None);
    assert_eq!(table.route("y"), Some(route(&offers[1], "y")));
    assert_eq!(table.route("b:x"), Some(route(&offers[1], "x")));
    assert_eq!(table.route("mcp_a_x"), Some(route(&offers[0], "x")));
    assert_eq!(table.route("z"), None);
}

#[test]
fn long_names_that_differ_at_the_end_stay_apart() {
    let long = |end: &str| format!("{}{end}", "n".repeat(80));
    let offers = [offer(0, "a", false, &[long("1"), long("2")])];
    let table = table(&offers);
    let (one, two) = (table.public(ServerId(0), &long("1")).unwrap(), table.public(ServerId(0), &long("2")).unwrap());
    assert_ne!(one, two);
    assert!(one.len() <= MAX_PUBLIC_NAME && two.len() <= MAX_PUBLIC_NAME);
    assert_eq!(table.route(two).unwrap().local.as_str(), long("2"));
}

// edges D6
#[test]
fn a_collision_elsewhere_does_not_make_everything_be_named_anew() {
    let make = |id: u32, tools: &[&str]| {
        let tools: Vec<String> = tools.iter().map(|name| (*name).to_owned()).collect();
        crate::generate::offer(id, crate::generate::PREFIXES[id as usize], true, &tools)
    };
    let before = [make(0, &["x", "y"]), make(1, &["x", "z"]), make(2, &["p"])];
    let (table, _) = NameTable::new(&before, ListKind::Tools);
    // Two servers have an `x`; a third one changes, and nobody else is asked.
    let after = [Arc::clone(&before[0]), Arc::clone(&before[1]), make(2, &["p", "q"])];
    let updated = table.update(Some(&before[2]), Some(&after[2]), &after, ListKind::Tools).unwrap();
    assert_eq!(updated.renamed, []);
    assert_eq!(updated.shown.iter().map(PublicName::as_str).collect::<Vec<_>>(), ["p", "q"]);
    // The first one gives its `x` up: exactly the other `x` has another name now.
    let after = [make(0, &["y"]), Arc::clone(&before[1]), Arc::clone(&before[2])];
    let updated = table.update(Some(&before[0]), Some(&after[0]), &after, ListKind::Tools).unwrap();
    assert_eq!(updated.renamed, [(ServerId(1), LocalName::new("x"), PublicName::new("x"))]);
}
