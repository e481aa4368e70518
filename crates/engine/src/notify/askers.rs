//! Modern clients that ask for lists and do not listen: nobody tells them anything, and people want to see that.
//!
//! A modern request belongs to nothing that stays, so a client is known by its name and principal, and only for a while after it asked for
//! a list. Nothing of it is noticed on the path of a call.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use tidings_hub::ClientKey;
use tidings_hub::deliveries::{ClientStanding, DeliveryRecord};
use tidings_hub::ledger::{FollowerId, Topic, Topics};
use tidings_proto::Revision;

use crate::client::session::Caller;
use crate::notify::ListNotifier;
use crate::notify::listeners::{Connected, ConnectedBy, MOST_LISTENS};

/// Who asked for no list for so long is forgotten.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);
/// So many are known at most; whoever asked the longest ago is forgotten first.
const MOST_ASKERS: usize = 256;

/// Commands and the page of the gateway itself: they ask once and are gone.
const OWN_PROGRAMS: [&str; 2] = ["tidings-cli", "tidings-page"];

type AskerName = (Option<String>, String);

#[derive(Default)]
pub(super) struct ModernAskers(HashMap<AskerName, ModernAsker>);

#[derive(Clone)]
struct ModernAsker {
    id: ClientKey,
    revision: Revision,
    since: SystemTime,
    listed: [Option<Instant>; 3],
    last: Instant,
}

/// One of them, for people to see.
pub(super) struct AskingClient {
    pub(super) client: Connected,
    pub(super) record: DeliveryRecord,
}

impl ModernAskers {
    fn asked(&mut self, name: AskerName, topic: Topic, new: ModernAsker) {
        let now = new.last;
        if !self.0.contains_key(&name) && self.0.len() >= MOST_ASKERS {
            self.0.retain(|_, asker| now.saturating_duration_since(asker.last) < REMEMBERED);
            let oldest = self.0.iter().min_by_key(|(_, asker)| asker.last).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest.filter(|_| self.0.len() >= MOST_ASKERS) {
                self.0.remove(&oldest);
            }
        }
        let asker = self.0.entry(name).or_insert(new);
        asker.last = now;
        asker.listed[topic as usize] = Some(now);
    }
}

impl ListNotifier {
    /// A modern client that does not listen asks for a list.
    pub(super) fn note_asker(&self, caller: &Caller, name: Option<&str>, topic: Topic) {
        if name.is_some_and(|name| OWN_PROGRAMS.contains(&name)) {
            return;
        }
        let new = ModernAsker {
            id: self.sessions.new_client(),
            revision: caller.revision(),
            since: SystemTime::now(),
            listed: [None; 3],
            last: Instant::now(),
        };
        let name = (name.map(str::to_owned), caller.principal().name.to_string());
        self.askers.lock().asked(name, topic, new);
    }

    /// A client begins to listen: what it asked for before it holds. Gives when that was.
    pub(super) fn asked_before(&self, name: Option<&str>, principal: &str) -> [Option<Instant>; 3] {
        let name = (name.map(str::to_owned), principal.to_owned());
        self.askers.lock().0.remove(&name).map(|asker| asker.listed).unwrap_or_default()
    }

    /// How many of them there are.
    pub(crate) fn asking_count(&self) -> usize {
        self.asking().len()
    }

    /// Those that asked lately and do not listen.
    pub(super) fn asking(&self) -> Vec<AskingClient> {
        let now = Instant::now();
        let all: Vec<(AskerName, ModernAsker)> = {
            let mut askers = self.askers.lock();
            askers.0.retain(|_, asker| now.saturating_duration_since(asker.last) < REMEMBERED);
            askers.0.iter().map(|(name, asker)| (name.clone(), asker.clone())).collect()
        };
        if all.is_empty() || self.listens.len() > MOST_LISTENS {
            return Vec::new();
        }
        let quiet = all.into_iter().filter(|((name, principal), _)| !self.listens.has(name.as_deref(), principal));
        let mut shown: Vec<AskingClient> = quiet
            .map(|((name, principal), asker)| AskingClient {
                client: Connected {
                    by: ConnectedBy::Requests,
                    id: asker.id.0,
                    revision: asker.revision,
                    name,
                    principal,
                    since: asker.since,
                    requests: 0,
                },
                record: DeliveryRecord {
                    listed: asker.listed,
                    follows: Topics::default(),
                    ..DeliveryRecord::default()
                },
            })
            .collect();
        shown.sort_unstable_by_key(|asking| asking.client.id);
        shown
    }
}

impl AskingClient {
    pub(super) fn id(&self) -> FollowerId {
        FollowerId(self.client.id)
    }

    /// The only way such a client can stand.
    pub(super) const STANDING: ClientStanding = ClientStanding::NotAsking;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(last: Instant) -> ModernAsker {
        let since = SystemTime::UNIX_EPOCH;
        ModernAsker { id: ClientKey(1), revision: Revision::MODERN, since, listed: [None; 3], last }
    }

    // reach 8.3
    #[test]
    fn only_so_many_are_known_and_the_oldest_goes() {
        let begun = Instant::now();
        let name = |n: u64| (Some(n.to_string()), "local".to_owned());
        let mut askers = ModernAskers::default();
        for n in 0..MOST_ASKERS as u64 + 5 {
            askers.asked(name(n), Topic::Tools, asker(begun + Duration::from_millis(n)));
        }
        assert_eq!(askers.0.len(), MOST_ASKERS);
        assert!(!askers.0.contains_key(&name(4)) && askers.0.contains_key(&name(5)));
        askers.asked(name(5), Topic::Prompts, asker(begun + REMEMBERED));
        assert!(askers.0.get(&name(5)).is_some_and(|asker| asker.listed[..2].iter().all(Option::is_some)));
    }
}
