//! The view of a session with links of its own: one look at a time, none lost, and always something to see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferExposure, OfferList, ServerOffer};
use tidings_hub::scope::{AccessScope, ServerAudience};
use tidings_hub::session_view::{MergedViews, OwnLinkLook, OwnLinkLooked, SessionView};
use tidings_proto::{Era, FieldView, UriMap};

const QUIET: Duration = Duration::from_millis(250);

fn offer(server: u32) -> Arc<ServerOffer> {
    Arc::new(ServerOffer {
        server: ServerId(server),
        name: format!("s{server}").into(),
        about: Box::default(),
        prefix: format!("s{server}").into(),
        bare: false,
        uris: UriMap::Transparent,
        era: Era::Legacy,
        makes_tasks: false,
        current: true,
        listed: true,
        exposure: OfferExposure::Ordinary,
        built_in: false,
        audience: ServerAudience::ByName,
        trusts_annotations: false,
        lists: [(); 4].map(|()| OfferList::default()),
    })
}

fn shared(offers: &[Arc<ServerOffer>]) -> Arc<CatalogueSnapshot> {
    Arc::new(CatalogueSnapshot::new(offers.to_vec(), FieldView::Strict))
}

#[derive(Clone, Debug)]
enum Step {
    Attend {
        servers: u8,
        changed: Option<u32>,
        asked: bool,
    },
    Signalled(u32),
    Connected(u32),
    Slept(u32),
    /// The look of a server ends: with an offer, with a part of it, or not.
    Looked {
        server: u32,
        outcome: u8,
    },
    WaitedEnough,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..8u8, proptest::option::of(0..3u32), any::<bool>())
            .prop_map(|(servers, changed, asked)| Step::Attend { servers, changed, asked }),
        3 => (0..3u32).prop_map(Step::Signalled),
        1 => (0..3u32).prop_map(Step::Connected),
        1 => (0..3u32).prop_map(Step::Slept),
        5 => (0..3u32, 0..3u8).prop_map(|(server, outcome)| Step::Looked { server, outcome }),
        1 => Just(Step::WaitedEnough),
    ]
}

#[derive(Default)]
struct Model {
    view: SessionView,
    /// Looks that are under way, and whether a signal came since they began.
    under_way: BTreeMap<u32, bool>,
    /// Whether what is known of a server may be old, as far as somebody must look without being asked.
    due: BTreeSet<u32>,
    parts: BTreeSet<u32>,
    offers: BTreeMap<u32, Arc<ServerOffer>>,
    shared: Vec<Arc<ServerOffer>>,
}

impl Model {
    fn begun(&mut self, look: OwnLinkLook) {
        let server = look.server.0;
        assert!(self.under_way.insert(server, false).is_none(), "two looks at one server at a time");
        self.due.remove(&server);
    }

    fn signal(&mut self, server: u32) {
        if let Some(again) = self.under_way.get_mut(&server) {
            *again = true;
        } else {
            self.due.insert(server);
        }
    }

    fn apply(&mut self, step: &Step, now: Instant) {
        match *step {
            Step::Attend { servers, changed, asked } => {
                if let Some(changed) = changed {
                    self.shared[changed as usize] = offer(changed);
                }
                let wanted: BTreeSet<u32> = (0..3).filter(|bit| servers & (1 << bit) != 0).collect();
                for server in &wanted {
                    if self.parts.contains(server) {
                        // Whether it changed since that part was last attended is the machine's to remember.
                    } else {
                        self.due.insert(*server);
                    }
                }
                let gone: Vec<u32> = self.parts.difference(&wanted).copied().collect();
                for server in gone {
                    self.due.remove(&server);
                    self.offers.remove(&server);
                    // Its look finds that nobody wants it.
                    self.under_way.remove(&server);
                }
                let ids: BTreeSet<ServerId> = wanted.iter().map(|server| ServerId(*server)).collect();
                let looks = self.view.attend(&shared(&self.shared), &ids, asked, QUIET, now);
                self.parts = wanted;
                looks.into_iter().for_each(|look| self.begun(look));
            }
            Step::Signalled(server) => {
                let look = self.view.signalled(ServerId(server), now);
                if self.parts.contains(&server) {
                    self.signal(server);
                }
                look.into_iter().for_each(|look| self.begun(look));
            }
            Step::Connected(server) => {
                let look = self.view.connected(ServerId(server), now);
                look.into_iter().for_each(|look| self.begun(look));
            }
            Step::Slept(server) => self.view.slept(ServerId(server)),
            Step::Looked { server, outcome } => {
                let Some(again) = self.under_way.remove(&server) else { return };
                let found = offer(server);
                let looked = match outcome {
                    0 => OwnLinkLooked::Offer(Arc::clone(&found), true),
                    1 => OwnLinkLooked::Offer(Arc::clone(&found), false),
                    _ => OwnLinkLooked::Failed { retry_at: now + Duration::from_secs(5) },
                };
                if outcome < 2 {
                    self.offers.insert(server, found);
                }
                if again || outcome > 0 {
                    self.due.insert(server);
                }
                let look = self.view.looked(ServerId(server), looked, QUIET, now);
                if let Some(look) = look {
                    assert!(look.at > now, "not without a pause");
                    self.begun(look);
                }
            }
            Step::WaitedEnough => {
                self.view.waited_enough();
                assert!(self.view.is_settled());
            }
        }
        assert!(self.due.is_empty(), "nobody looks at {:?}, where something was said", self.due);
        // What it sees: its own offers, and for the rest what everybody sees.
        let everybody = shared(&self.shared);
        let seen = self.view.snapshot(&everybody, &AccessScope::everything(), None);
        for server in 0..3u32 {
            let expected = self.offers.get(&server).unwrap_or(&self.shared[server as usize]);
            let got = seen.offer(ServerId(server)).unwrap();
            assert!(Arc::ptr_eq(got, expected), "server {server}");
        }
    }
}

proptest! {
    // edges B2; bridging 11
    #[test]
    fn every_signal_is_followed_by_a_look_and_there_is_one_at_a_time(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut model = Model { shared: (0..3).map(offer).collect(), ..Model::default() };
        let now = Instant::now();
        for step in &steps {
            model.apply(step, now);
        }
    }
}

// edges B3: a link that sleeps is woken by who asks, not by what happens elsewhere.
#[test]
fn what_sleeps_is_looked_at_again_only_when_somebody_asks_or_its_server_changes() {
    let mut view = SessionView::default();
    let now = Instant::now();
    let mut offers: Vec<Arc<ServerOffer>> = (0..2).map(offer).collect();
    let both: BTreeSet<ServerId> = [ServerId(0), ServerId(1)].into();
    for look in view.attend(&shared(&offers), &both, true, QUIET, now) {
        assert_eq!(view.looked(look.server, OwnLinkLooked::Offer(offer(look.server.0), true), QUIET, now), None);
    }
    view.slept(ServerId(0));
    offers[1] = offer(1);
    let woken = view.attend(&shared(&offers), &both, false, QUIET, now);
    assert_eq!(woken.iter().map(|look| look.server).collect::<Vec<_>>(), [ServerId(1)]);
    let woken = view.attend(&shared(&offers), &both, true, QUIET, now);
    assert_eq!(woken.iter().map(|look| look.server).collect::<Vec<_>>(), [ServerId(0)]);
    // Nobody waits twice for what took too long.
    assert!(!view.is_settled());
    view.waited_enough();
    assert!(view.is_settled());
}

// identity 1: "NeedsLogin is a state, not a retry loop"
#[test]
fn who_has_to_log_in_is_not_looked_at_before_that_changed_and_keeps_the_last_list() {
    let (mut view, now) = (SessionView::default(), Instant::now());
    let catalogue = shared(&[]);
    let one: BTreeSet<ServerId> = [ServerId(0)].into();
    let attend = |view: &mut SessionView| view.attend(&catalogue, &one, true, QUIET, now);
    assert_eq!(attend(&mut view).len(), 1);
    assert_eq!(view.looked(ServerId(0), OwnLinkLooked::NeedsLogin, QUIET, now), None);
    assert!(view.is_settled() && attend(&mut view).is_empty(), "asking does not help");
    assert!(view.whole(&catalogue).offer(ServerId(0)).is_none());
    // Somebody logs in, and later the login is taken back.
    assert!(view.signalled(ServerId(0), now).is_some());
    assert_eq!(view.looked(ServerId(0), OwnLinkLooked::Offer(offer(0), true), QUIET, now), None);
    assert!(view.signalled(ServerId(0), now).is_some());
    assert_eq!(view.looked(ServerId(0), OwnLinkLooked::NeedsLogin, QUIET, now), None);
    assert!(view.whole(&catalogue).offer(ServerId(0)).is_some());
    // What is said during a look may be that somebody has logged in by now.
    assert!(view.signalled(ServerId(0), now).is_some() && view.signalled(ServerId(0), now).is_none());
    assert!(view.looked(ServerId(0), OwnLinkLooked::NeedsLogin, QUIET, now).is_some());
}

// identity 1: "the truth about `needs login`"
#[test]
fn whether_a_login_is_missing_is_open_until_a_server_has_answered() {
    let (mut view, now) = (SessionView::default(), Instant::now());
    let catalogue = shared(&[]);
    let both: BTreeSet<ServerId> = [ServerId(0), ServerId(1)].into();
    let open = |view: &SessionView| view.undecided().map(|server| server.0).collect::<Vec<_>>();
    assert_eq!(view.attend(&catalogue, &both, true, QUIET, now).len(), 2);
    assert_eq!(open(&view), [0, 1]);
    // Neither is known of a server that fails, though nobody waits for it any more.
    assert!(view.looked(ServerId(0), OwnLinkLooked::Failed { retry_at: now }, QUIET, now).is_some());
    view.waited_enough();
    assert_eq!((view.is_settled(), open(&view)), (true, vec![0, 1]));
    assert_eq!(view.looked(ServerId(0), OwnLinkLooked::NeedsLogin, QUIET, now), None);
    assert_eq!(view.looked(ServerId(1), OwnLinkLooked::Offer(offer(1), true), QUIET, now), None);
    assert!(open(&view).is_empty());
    // Whoever was let in once is not asked to log in because the connection sleeps or is looked at again.
    view.slept(ServerId(1));
    assert!(open(&view).is_empty());
    assert!(view.signalled(ServerId(1), now).is_some());
    assert!(open(&view).is_empty());
}

// identity 5: "equal lists are one allocation"
#[test]
fn people_who_are_offered_the_same_share_one_view() {
    let (catalogue, now) = (shared(&[offer(1)]), Instant::now());
    let one: BTreeSet<ServerId> = [ServerId(0)].into();
    let mut known = MergedViews::default();
    let common = offer(0);
    let mut seen = |offered: &Arc<ServerOffer>| {
        let mut view = SessionView::default();
        view.attend(&catalogue, &one, true, QUIET, now);
        view.looked(ServerId(0), OwnLinkLooked::Offer(Arc::clone(offered), true), QUIET, now);
        view.whole_among(&catalogue, &mut known)
    };
    let (ada, dan, eve) = (seen(&common), seen(&common), seen(&offer(0)));
    assert!(Arc::ptr_eq(&ada, &dan) && !Arc::ptr_eq(&ada, &eve));
    assert!(common.equals(&offer(0)) && !common.equals(&offer(2)));
    // Of a view that nobody has any more nothing is kept.
    let before = Arc::downgrade(&ada);
    drop((ada, dan));
    assert_eq!(before.strong_count(), 0);
    assert!(seen(&common).offer(ServerId(0)).is_some());
}
