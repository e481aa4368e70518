//! The keepers of one server: that of the grant that is for all, or one for each person.

use std::collections::{BTreeSet, HashMap};

use tidings_config::LoginConfig;
use tidings_hub::grant_keeper::GrantState;
use tidings_upstream::PeopleLogins;

use crate::keeper::Keeper;

/// Of so many people who are not logged in it is remembered that they have to; of more, only of those who are.
const MOST_PEOPLE: usize = 4_096;

/// Whose keeper of a server is asked for.
pub(crate) enum KeeperOf {
    /// There is one.
    Known(Keeper),
    /// There is none yet for this person: what is kept of theirs has to be read first.
    Unread,
}

/// All keepers of a server.
pub(crate) struct ServerKeepers {
    /// Of the grant for all. Where each person logs in, it knows what the server wants, and has no grant.
    pub(crate) shared: Keeper,
    people: HashMap<String, Keeper>,
    /// People of whom a grant is kept, and who have not asked for anything in this process.
    unread: BTreeSet<String>,
}

impl ServerKeepers {
    /// `kept`: the people of whom a grant is kept.
    pub(crate) fn new(shared: Keeper, kept: Vec<String>) -> Self {
        Self { shared, people: HashMap::new(), unread: kept.into_iter().collect() }
    }

    pub(crate) fn of(&self, person: Option<&str>) -> KeeperOf {
        match person {
            None => KeeperOf::Known(self.shared.clone()),
            Some(person) => self.people.get(person).cloned().map_or(KeeperOf::Unread, KeeperOf::Known),
        }
    }

    /// The keeper of a person was made. Gives the one that counts.
    pub(crate) fn put(&mut self, person: &str, made: Keeper) -> Keeper {
        if self.people.len() >= MOST_PEOPLE {
            self.people.retain(|_, keeper| {
                // `Alien` and `Unavailable` are kept: they hold a pause that a new keeper would not know of.
                let is_kept = !matches!(keeper.state(), GrantState::Open | GrantState::NeedsLogin(_));
                if is_kept || !keeper.is_unused() {
                    return true;
                }
                // Its task would outlive it.
                keeper.end();
                false
            });
        }
        self.unread.remove(person);
        self.people.entry(person.to_owned()).or_insert(made).clone()
    }

    pub(crate) fn configure(&self, settings: &LoginConfig, is_configured: bool) {
        self.all().for_each(|keeper| keeper.configure(settings.clone(), is_configured));
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Keeper> {
        self.people.values().chain([&self.shared])
    }

    /// People who have not asked for anything yet, but whose grant is kept.
    pub(crate) fn unread(&self) -> Vec<String> {
        self.unread.iter().cloned().collect()
    }

    /// Of these people a grant is known, also if they have not asked for anything here.
    pub(crate) fn heard(&mut self, granted: BTreeSet<String>) {
        self.unread = granted;
        self.unread.retain(|person| !self.people.contains_key(person));
    }

    pub(crate) fn count(&self) -> PeopleLogins {
        let mut count = PeopleLogins { logged_in: self.unread.len(), need_login: 0 };
        for keeper in self.people.values() {
            match keeper.state() {
                GrantState::NeedsLogin(_) => count.need_login += 1,
                GrantState::Valid(_) | GrantState::Unavailable | GrantState::Busy if keeper.has_grant() => {
                    count.logged_in += 1;
                }
                _ => {}
            }
        }
        count
    }
}
