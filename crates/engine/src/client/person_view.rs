//! What a person sees over links of their own, with all their clients of both eras (`isolation = "principal"`).
//!
//! Belongs here: who the people are that are seen so, and which of their clients are told. What is seen is decided by
//! `tidings_hub::session_view`, and looked at by `discovery`.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, Weak};

use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_hub::ledger::FollowerId;
use tidings_hub::session_view::MergedViews;
use tidings_sync::Lock;

use crate::client::principal::ViewKey;
use crate::client::session::{OwnView, Session};

/// Of so many people the view is kept; of more, only of those who are connected.
const MOST_PEOPLE: usize = 4_096;

/// One person, as far as the view goes.
pub(crate) struct PersonView {
    pub(crate) name: Arc<str>,
    pub(crate) own: OwnView,
    /// The clients that are told when the view changes. A leaf among the locks.
    followers: Lock<HashMap<FollowerId, PersonFollower>>,
    /// Held while the clients without a session are told. Taken before the view.
    telling: Lock<()>,
}

/// A client of a person that is told of changes.
#[derive(Clone)]
pub(crate) enum PersonFollower {
    /// Weak: it leaves with its session, and must not keep it.
    Session(Weak<Session>),
    Listen(ViewKey),
}

impl PersonView {
    pub(crate) fn follow(&self, follower: FollowerId, as_what: PersonFollower) {
        self.followers.lock().insert(follower, as_what);
    }

    pub(crate) fn left(&self, follower: FollowerId) {
        self.followers.lock().remove(&follower);
    }

    /// Nobody else tells them meanwhile.
    pub(crate) fn telling(&self) -> MutexGuard<'_, ()> {
        self.telling.lock()
    }

    /// Cloned out: whoever is told takes locks.
    pub(crate) fn followers(&self) -> Vec<(FollowerId, PersonFollower)> {
        self.followers.lock().iter().map(|(follower, what)| (*follower, what.clone())).collect()
    }
}

/// The people who see something over links of their own.
#[derive(Default)]
pub(crate) struct PeopleViews {
    by_name: Lock<HashMap<Arc<str>, Arc<PersonView>>>,
    /// What they see, so that equal views are one. Taken under the view of a person; a leaf.
    merged: Lock<MergedViews>,
}

impl PeopleViews {
    pub(crate) fn of(&self, name: &Arc<str>) -> Arc<PersonView> {
        let mut people = self.by_name.lock();
        if let Some(person) = people.get(name) {
            return Arc::clone(person);
        }
        if people.len() >= MOST_PEOPLE {
            // Made again when they ask: nobody is waiting for them, and nobody is to be told.
            people.retain(|_, person| Arc::strong_count(person) > 1 || !person.followers.lock().is_empty());
        }
        let (own, followers, telling) = Default::default();
        let person = Arc::new(PersonView { name: Arc::clone(name), own, followers, telling });
        people.insert(Arc::clone(name), Arc::clone(&person));
        person
    }

    /// One whose view is known.
    pub(crate) fn known(&self, name: &str) -> Option<Arc<PersonView>> {
        self.by_name.lock().get(name).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<PersonView>> {
        self.by_name.lock().values().cloned().collect()
    }

    /// The shared catalogue with what a person is offered in it.
    pub(crate) fn whole(&self, person: &PersonView, shared: &Arc<CatalogueSnapshot>) -> Arc<CatalogueSnapshot> {
        person.own.lock().whole_among(shared, &mut self.merged.lock())
    }

    /// An offer as somebody has it already, or this one: equal lists are one allocation.
    pub(crate) fn same_offer(&self, offer: ServerOffer, shared: Option<&Arc<ServerOffer>>) -> Arc<ServerOffer> {
        let server: ServerId = offer.server;
        let of_person = |person: Arc<PersonView>| person.own.lock().offer(server).cloned();
        let known = shared.cloned().into_iter().chain(self.all().into_iter().filter_map(of_person));
        known.into_iter().find(|known| known.equals(&offer)).unwrap_or_else(|| Arc::new(offer))
    }
}

/// Whose view it is.
#[derive(Clone)]
pub(crate) enum ViewOwner {
    Session(Arc<Session>),
    Person(Arc<PersonView>),
}

impl ViewOwner {
    pub(crate) fn own(&self) -> &OwnView {
        match self {
            Self::Session(session) => &session.own_view,
            Self::Person(person) => &person.own,
        }
    }

    /// Waits until nobody has this view any more.
    pub(crate) async fn gone(&self) {
        match self {
            Self::Session(session) => session.over.cancelled().await,
            // A person never ends: looks for one end when their link can not be had.
            Self::Person(_) => std::future::pending().await,
        }
    }
}
