//! Names of tools that went, so that whoever still calls one is told when, by which change, and what comes nearest to it.
//!
//! Bounded in names and bytes: the oldest are forgotten. Only an answer that would be "unknown tool" anyway is made of it, so it is on no
//! path that counts. Who may be told of a name is decided by whoever asks: it must have been able to see the server.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidings_proto::{ListKind, LocalName};
use tidings_wire::{ByteSpan, members};

use crate::ServerId;
use crate::catalogue::{CatalogueSnapshot, ItemRoute, OfferItem, ServerOffer};
use crate::client_profile::{short_name, short_name_stem};
use crate::scope::ServerAudience;

/// So many names are remembered at most.
pub const MOST_NAMES: usize = 4_096;
/// And so many bytes of them.
pub const MOST_BYTES: usize = 512 << 10;
/// Among more tools than this that went or came at once no new name is looked for: it would cost their product.
const MOST_COMPARED: usize = 64;
/// How many names are given that come near to one.
const MOST_NEAREST: usize = 3;
/// Only among so many names is one looked for that comes near.
const MOST_SEARCHED: usize = 5_000;
/// How often a short name may have been made anew because somebody had it. Once is rare enough.
const MOST_ATTEMPTS: usize = 3;
/// Below this likeness a suggestion is more often wrong than right.
const LIKENESS: f64 = 0.80;

/// A tool that went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepartedTool {
    /// The server that had it.
    pub server: ServerId,
    /// Its configured name.
    pub server_name: Box<str>,
    /// Who may use that server.
    pub audience: ServerAudience,
    /// The number of the commit by which it went: milliseconds since 1970, made strictly increasing.
    pub commit: u64,
    /// What the server calls it now, where the same commit brought one that differs by its name alone.
    pub renamed: Option<LocalName>,
}

/// The names.
#[derive(Debug, Default)]
pub struct Departures {
    names: HashMap<Arc<str>, DepartedTool>,
    /// In the order in which they went; one that came back, or went again, is here still, with its old number.
    order: VecDeque<(Arc<str>, u64)>,
    bytes: usize,
}

impl Departures {
    /// A commit made the second state of the first.
    pub fn committed(&mut self, before: &CatalogueSnapshot, after: &CatalogueSnapshot, commit: u64) {
        for offer in before.offers() {
            let now = after.offer(offer.server);
            // Shared where nothing changed, which is so for all servers but one in nearly every commit.
            if now.is_some_and(|now| Arc::ptr_eq(now, offer)) {
                continue;
            }
            let gone = |item: &&OfferItem| now.is_none_or(|now| now.list(ListKind::Tools).get(&item.key).is_none());
            let gone: Vec<&OfferItem> = offer.list(ListKind::Tools).items.iter().filter(gone).collect();
            let came = now.map_or_else(Vec::new, |now| came(offer, now));
            for item in &gone {
                let Some(name) = before.public_name(ListKind::Tools, offer.server, &item.key) else { continue };
                let fits = gone.len() <= MOST_COMPARED && came.len() <= MOST_COMPARED;
                let renamed = fits.then(|| came.iter().find(|other| differ_by_name(item, other))).flatten();
                self.went(
                    name.as_str(),
                    DepartedTool {
                        server: offer.server,
                        server_name: offer.name.clone(),
                        audience: offer.audience,
                        commit,
                        renamed: renamed.map(|item| item.key.clone()),
                    },
                );
            }
        }
    }

    fn went(&mut self, name: &str, tool: DepartedTool) {
        let name: Arc<str> = name.into();
        self.bytes += cost(&name);
        self.order.push_back((Arc::clone(&name), tool.commit));
        self.names.insert(name, tool);
        while self.order.len() > MOST_NAMES || self.bytes > MOST_BYTES {
            let Some((oldest, commit)) = self.order.pop_front() else { break };
            self.bytes -= cost(&oldest);
            // It may have gone again since: then the later one counts, and has a place of its own.
            if self.names.get(&oldest).is_some_and(|tool| tool.commit == commit) {
                self.names.remove(&oldest);
            }
        }
    }

    /// What is known of a name that is not there.
    pub fn of(&self, name: &str) -> Option<&DepartedTool> {
        self.names.get(name)
    }

    /// As [`Self::of`], for a client whose profile cuts names at `budget` bytes and who was shown the tool by such a name. The whole name
    /// comes with it. Whole names are remembered and short ones made again, because each profile has its own.
    pub fn of_short(&self, short: &str, budget: usize) -> Option<(&Arc<str>, &DepartedTool)> {
        let kept = short_name_stem(short)?;
        let is_it = |full: &str| {
            full.starts_with(kept)
                && (0..MOST_ATTEMPTS)
                    .any(|attempt| short_name(full, budget, attempt).is_some_and(|made| made.as_str() == short))
        };
        // A walk over all names: this is asked only for a call that fails anyway.
        self.names.iter().filter(|(full, _)| is_it(full)).max_by_key(|(_, tool)| tool.commit)
    }

    /// How many names are remembered.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// What a name costs: itself, and its places in both tables.
fn cost(name: &str) -> usize {
    name.len() + 128
}

fn came<'a>(before: &ServerOffer, now: &'a ServerOffer) -> Vec<&'a OfferItem> {
    let known = before.list(ListKind::Tools);
    now.list(ListKind::Tools).items.iter().filter(|item| known.get(&item.key).is_none()).collect()
}

/// Whether two definitions say the same but for their names.
fn differ_by_name(one: &OfferItem, other: &OfferItem) -> bool {
    let rest = |item: &OfferItem| -> Vec<(Vec<u8>, Vec<u8>)> {
        let raw = &item.raw;
        let all = members(raw, ByteSpan::new(0, raw.len())).filter(|member| !member.key.is(raw, "name"));
        // As it is spelled: who renames a tool leaves the rest of it as it was.
        all.map(|member| (member.key.span.of(raw).to_vec(), member.value.of(raw).to_vec())).collect()
    };
    let (one, other) = (rest(one), rest(other));
    // Two tools that say nothing at all are not one.
    one.len() > 1 && one == other
}

/// The names of tools that somebody sees and that come nearest to this one, the nearest first.
pub fn nearest(snapshot: &CatalogueSnapshot, name: &str) -> Vec<String> {
    let of = |offer: &Arc<ServerOffer>| {
        let items: Vec<&str> = offer
            .list(ListKind::Tools)
            .items
            .iter()
            .filter_map(|item| snapshot.public_name(ListKind::Tools, offer.server, &item.key))
            .map(|name| name.as_str())
            .collect();
        items
    };
    let names = snapshot.offers().iter().filter(|offer| offer.shows(ListKind::Tools)).flat_map(of);
    let mut found: Vec<(f64, &str)> = names
        .take(MOST_SEARCHED)
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    found.into_iter().take(MOST_NEAREST).map(|(_, name)| name.to_owned()).collect()
}

/// Where a tool that has another name now is, if it is still there.
pub fn renamed_route(tool: &DepartedTool) -> Option<ItemRoute> {
    Some(ItemRoute { server: tool.server, local: tool.renamed.clone()? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use bytes::Bytes;
    use tidings_proto::FieldView;

    use super::*;
    use crate::client_profile::ViewShape;

    fn tool(name: &str, description: &str) -> OfferItem {
        let raw = format!(
            "{{\"name\":\"{name}\",\"description\":\"{description}\",\"inputSchema\":{{\"type\":\"object\"}}}}"
        );
        OfferItem::read(ListKind::Tools, Bytes::from(raw), false).unwrap()
    }

    fn state(tools: &[(&str, &str)]) -> CatalogueSnapshot {
        let items = tools.iter().map(|(name, description)| tool(name, description)).collect();
        let offer = ServerOffer::new(ServerId(1), "git").offering(ListKind::Tools, items);
        let other = ServerOffer::new(ServerId(2), "notes").offering(ListKind::Tools, vec![tool("search", "s")]);
        CatalogueSnapshot::new(vec![Arc::new(offer), Arc::new(other)], FieldView::Strict)
    }

    // reach 3
    #[test]
    fn a_tool_that_went_is_known_with_its_change_and_its_new_name() {
        let mut departures = Departures::default();
        let before = state(&[("search", "a"), ("create", "b"), ("stays", "c")]);
        let after = state(&[("find", "a"), ("stays", "c"), ("create_issue", "other words")]);
        departures.committed(&before, &after, 41);
        let search = departures.of("git__search").unwrap();
        assert_eq!((search.commit, &*search.server_name), (41, "git"));
        assert_eq!(search.renamed.as_ref().map(LocalName::as_str), Some("find"), "it says the same");
        assert_eq!(departures.of("git__create").unwrap().renamed, None, "another tool");
        assert!(departures.of("git__stays").is_none() && departures.of("git__never").is_none());
        assert_eq!(nearest(&after, "git__create")[0], "git__create_issue");
        assert!(nearest(&after, "something else entirely").is_empty());
        departures.committed(&after, &before, 42);
        departures.committed(&before, &after, 43);
        assert_eq!(departures.of("git__search").unwrap().commit, 43, "it went again");
    }

    // reach 3
    #[test]
    fn a_tool_that_went_is_known_by_the_short_name_that_a_client_was_shown() {
        let long = format!("search_{}", "x".repeat(50));
        let other = format!("search_{}", "y".repeat(50));
        let before = Arc::new(state(&[(&long, "a"), (&other, "b"), ("brief", "c")]));
        let mut departures = Departures::default();
        departures.committed(&before, &state(&[]), 41);
        for budget in [30, 51] {
            let shape = ViewShape { name_budget: Some(budget), ..ViewShape::default() };
            let seen = before.shaped(&Arc::new(shape));
            for name in [&long, &other] {
                let local = LocalName::new(name.as_str());
                let short = seen.public_name(ListKind::Tools, ServerId(1), &local).unwrap().as_str();
                let (full, tool) = departures.of_short(short, budget).unwrap();
                assert_eq!((&**full, tool.commit), (format!("git__{name}").as_str(), 41));
                assert!(departures.of_short(short, budget - 1).is_none(), "another client's name");
                assert!(departures.of(short).is_none());
                // Made anew once, because somebody had the name.
                let again = short_name(full, budget, 1).unwrap();
                assert_eq!(departures.of_short(again.as_str(), budget).unwrap().0, full);
            }
            for never in ["git__brief", "git__search_0", "git__search_xxxxxxxxx_00000000", "_00000000", "", "ü_0000000"]
            {
                assert!(departures.of_short(never, budget).is_none(), "{never}");
            }
        }
    }

    // reach 3
    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_stays() {
        let mut departures = Departures::default();
        let full: Vec<String> = (0..600).map(|number| format!("tool{number:04}_{}", "x".repeat(40))).collect();
        let full: Vec<(&str, &str)> = full.iter().map(|name| (name.as_str(), "d")).collect();
        let (full, none) = (state(&full), state(&[]));
        for round in 0..20 {
            departures.committed(&full, &none, round);
            assert!(departures.len() <= MOST_NAMES && departures.bytes <= MOST_BYTES);
        }
        assert_eq!(departures.len(), 600, "one place in the table for each name");
        assert!(departures.order.len() <= MOST_NAMES);
        let name = format!("git__tool0599_{}", "x".repeat(40));
        let known = departures.names.keys().find(|known| known.starts_with("git__tool0599")).unwrap();
        assert_eq!(departures.of(known).unwrap().commit, 19, "{name}");
    }
}
