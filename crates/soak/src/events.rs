//! What happens to servers: changes that clients must be told of, and noise that they must not.

use std::time::Duration;

use crate::kinds::{DefinitionView, SoakList, SoakTopic};
use crate::source::{SessionRefusal, key};
use crate::world::SoakWorld;

/// Fewer items than this and nothing is taken away; more than the other and nothing is added.
const FEWEST: usize = 1;
const MOST: usize = 12;

/// Something that changes what is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferChange {
    Add,
    Remove,
    Text,
    Schema,
    Icon,
}

impl OfferChange {
    pub(crate) const ALL: [Self; 5] = [Self::Add, Self::Remove, Self::Text, Self::Schema, Self::Icon];

    /// Who can see it.
    pub(crate) const fn views(self) -> &'static [DefinitionView] {
        match self {
            Self::Icon => &[DefinitionView::Whole],
            _ => &DefinitionView::ALL,
        }
    }

    const fn sort(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Text => "change",
            Self::Schema => "change of a schema only",
            Self::Icon => "change of an icon",
        }
    }
}

/// Something that changes nothing.
#[derive(Clone, Copy, Debug)]
enum IdleNoise {
    Touch,
    Flood,
    Death,
    LostSessions,
    ClosedStreams,
    FailedListing,
    SlowListing,
}

const NOISES: [IdleNoise; 7] = [
    IdleNoise::Touch,
    IdleNoise::Flood,
    IdleNoise::Death,
    IdleNoise::LostSessions,
    IdleNoise::ClosedStreams,
    IdleNoise::FailedListing,
    IdleNoise::SlowListing,
];

impl SoakWorld {
    fn any_source(&mut self) -> usize {
        usize::try_from(self.random.below(self.sources.len() as u64)).unwrap_or_default()
    }

    /// Changes one thing of a server, and says so. Gives back whether there was something to change.
    pub(crate) fn change(&mut self, at: usize, kind: SoakList, change: OfferChange, announce: bool) -> bool {
        let keys = self.sources[at].keys(kind);
        let impossible = match change {
            OfferChange::Add => keys.len() >= MOST,
            OfferChange::Remove => keys.len() <= FEWEST,
            _ => keys.is_empty(),
        };
        if impossible {
            return false;
        }
        let number = self.fresh();
        let name = if change == OfferChange::Add { key(kind, number) } else { self.random.pick(&keys).clone() };
        // Counted before it is published: a client may be told before the next line runs.
        self.count_change(at, kind, change.views());
        let shelf = self.sources[at].shelf(kind);
        let item = shelf.entry(name.clone()).or_default();
        match change {
            OfferChange::Add => {}
            OfferChange::Remove => {
                shelf.remove(&name);
            }
            OfferChange::Text => item.text = number,
            OfferChange::Schema => item.schema = number,
            OfferChange::Icon => item.icon = Some(number),
        }
        self.sources[at].publish(kind, &mut self.random);
        let line = format!("{} of {} ({})", name, self.sources[at].name, if announce { "said" } else { "unsaid" });
        self.note(change.sort(), &line);
        if announce {
            self.sources[at].signal(kind.topic());
        }
        true
    }

    /// One random change, several at once, or one that is taken back.
    pub(crate) async fn random_change(&mut self) {
        let at = self.any_source();
        let kind = *self.random.pick(&SoakList::ALL);
        match self.random.below(10) {
            0 => self.there_and_back(at, kind).await,
            1 => {
                for _ in 0..self.random.below(5) + 2 {
                    let change = *self.random.pick(&OfferChange::ALL);
                    self.change(at, kind, change, false);
                }
                self.sources[at].signal(kind.topic());
            }
            _ => {
                let change = *self.random.pick(&OfferChange::ALL);
                self.change(at, kind, change, true);
            }
        }
    }

    /// A, then B, then A again; a gateway may or may not have seen B.
    async fn there_and_back(&mut self, at: usize, kind: SoakList) {
        let before = self.sources[at].shelf(kind).clone();
        if !self.change(at, kind, OfferChange::Text, true) {
            return;
        }
        let pause = self.random.millis(0, 150);
        tokio::time::sleep(pause).await;
        // The way back is a change of its own, for a gateway that saw the first.
        self.count_change(at, kind, &DefinitionView::ALL);
        *self.sources[at].shelf(kind) = before;
        self.sources[at].publish(kind, &mut self.random);
        self.note("change and back", &format!("{} after {pause:?}", self.sources[at].name.clone()));
        self.sources[at].signal(kind.topic());
    }

    /// Noise at a random server; `change_while_dead` lets one that dies come back different.
    pub(crate) async fn random_noise(&mut self, change_while_dead: bool) {
        let at = self.any_source();
        match *self.random.pick(&NOISES) {
            IdleNoise::Touch => self.touch(at),
            IdleNoise::Flood => self.flood(at).await,
            IdleNoise::Death => self.death(at, change_while_dead).await,
            IdleNoise::LostSessions => self.lose_sessions(at),
            IdleNoise::ClosedStreams => self.close_streams(at),
            IdleNoise::FailedListing => self.fail_listing(at),
            IdleNoise::SlowListing => self.slow_listing(at),
        }
    }

    fn touch(&mut self, at: usize) {
        let kind = *self.random.pick(&SoakList::ALL);
        self.sources[at].publish(kind, &mut self.random);
        self.note("touch", &format!("{} of {}", kind.name(), self.sources[at].name.clone()));
        self.sources[at].signal(kind.topic());
    }

    async fn flood(&mut self, at: usize) {
        let topic = *self.random.pick(&SoakTopic::ALL);
        let pause = self.random.below(3);
        self.note("flood", &format!("{} of {}", topic.name(), self.sources[at].name.clone()));
        for _ in 0..100 {
            self.sources[at].signal(topic);
            if pause > 0 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
    }

    async fn death(&mut self, at: usize, change_while_dead: bool) {
        if !self.sources[at].may_die() {
            return;
        }
        self.sources[at].dies();
        let name = self.sources[at].name.clone();
        if !self.sources[at].nature.http && self.random.chance(40) {
            self.note("exit of a process", &name);
            // The next process can be started at once, while a killed server stays away for a while.
            self.sources[at].server.exit(1);
            return;
        }
        self.note(self.sources[at].nature.refusal.map_or("death", SessionRefusal::restart), &name);
        self.sources[at].server.kill().await;
        tokio::time::sleep(self.random.millis(0, 250)).await;
        if change_while_dead {
            let kind = *self.random.pick(&SoakList::ALL);
            self.change(at, kind, OfferChange::Text, true);
        }
        self.sources[at].server.revive().await;
        self.trace.note(format!("{name} is back"));
    }

    fn lose_sessions(&mut self, at: usize) {
        let source = &mut self.sources[at];
        let Some(refusal) = source.nature.refusal.filter(|_| source.may_die()) else { return };
        source.dies();
        // A server that forgets a session closes its stream, too.
        source.server.close_get_streams();
        source.server.forget_sessions();
        let name = source.name.clone();
        self.note(refusal.loss(), &name);
    }

    fn close_streams(&mut self, at: usize) {
        let source = &self.sources[at];
        source.server.close_get_streams();
        source.server.end_listens();
        let name = source.name.clone();
        self.note("closed streams", &name);
    }

    fn fail_listing(&mut self, at: usize) {
        let kind = *self.random.pick(&SoakList::ALL);
        let times = usize::try_from(self.random.below(3)).unwrap_or_default() + 1;
        self.sources[at].server.fail_next(kind.method(), times);
        self.note("failed listing", &format!("{} of {}, {times} times", kind.name(), self.sources[at].name.clone()));
        self.sources[at].signal(kind.topic());
    }

    fn slow_listing(&mut self, at: usize) {
        let kind = *self.random.pick(&SoakList::ALL);
        let time = self.random.millis(5, 120);
        self.sources[at].server.hold_back(kind.method(), time);
        self.note("slow listing", &format!("{} of {} by {time:?}", kind.name(), self.sources[at].name.clone()));
        self.sources[at].signal(kind.topic());
    }
}
