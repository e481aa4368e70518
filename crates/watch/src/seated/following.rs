//! What of a source is followed here, followed at the replica that looks at it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tidings_upstream::SharedLink;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::asking::{AskFault, Heard, OpenFollow, read};
use super::{LOOK_WITHIN, SeatedSource};
use crate::observations::{Hash, SourceSignals, hash};

/// How long it may take until what is followed is agreed on. Longer than a source is waited for there.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// A stream that ended is opened again after this time, if nobody else has the seat before.
const OPEN_AGAIN: Duration = Duration::from_millis(200);
/// How often it is seen whether what is followed there is still followed here, and what is to be read again.
const TIDY: Duration = Duration::from_secs(1);
/// How many streams there may be before they become one.
const MOST_FOLLOWS: usize = 16;
/// How many contents are read at a time.
const MOST_READS: usize = 8;
/// The longest pause before a content is read again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows for as long as it is polled, wherever the source is looked at.
pub(super) async fn follow(source: &SeatedSource, signals: SourceSignals) {
    let mut seats = match tokio::time::timeout(LOOK_WITHIN, source.seats()).await {
        Ok(seats) => seats,
        Err(_) => {
            signals.ready();
            source.seats().await
        }
    };
    loop {
        let seat = seats.current();
        let Some(link) = source.link(&seats, &seat) else {
            // Whoever waits is told of what will be seen then.
            if tokio::time::timeout(LOOK_WITHIN, seats.other_than(&seat)).await.is_err() {
                signals.ready();
                seats.other_than(&seat).await;
            }
            continue;
        };
        tokio::select! {
            end = FollowedSource::follow_at(source, &signals, link) => {
                signals.ready();
                if let FollowEnd::Untidy = end {
                    continue;
                }
            }
            _ = seats.other_than(&seat) => continue,
        }
        tokio::select! {
            () = tokio::time::sleep(OPEN_AGAIN) => {}
            _ = seats.other_than(&seat) => {}
        }
    }
}

enum FollowEnd {
    /// Nothing more is heard.
    Lost,
    /// Much of what is followed there is not followed here any more: it begins anew.
    Untidy,
}

/// A content that is to be compared, since nobody heard what became of it.
#[derive(Clone, Copy)]
struct DueRead {
    tries: u32,
    at: Instant,
}

impl DueRead {
    /// At once, or after a pause that grows with the tries.
    fn after(tries: u32) -> Self {
        let pause = match tries {
            0 => Duration::ZERO,
            _ => Duration::from_secs(1 << (tries - 1).min(5)).min(LONGEST_PAUSE),
        };
        Self { tries, at: Instant::now() + pause }
    }
}

/// What came of a read, and how often it was tried before: the content's hash, `None` where there is none.
type ReadEnd = (String, u32, Result<Option<Hash>, AskFault>);

/// What is followed besides, once that is agreed on.
type Opening<'s> = BoxFuture<'s, Option<OpenFollow>>;

/// What happens next.
enum FollowStep {
    Heard(Heard),
    Read(ReadEnd),
    /// `None`: it can not be followed.
    Opened(Option<OpenFollow>),
    /// Somebody waits for a first look.
    Awaited,
    Tidy,
}

/// A source while one replica looks at it.
struct FollowedSource<'s> {
    source: &'s SeatedSource,
    signals: &'s SourceSignals,
    link: SharedLink,
    /// The first has the list.
    follows: Vec<OpenFollow>,
    due: BTreeMap<String, DueRead>,
    reading: FuturesUnordered<BoxFuture<'s, ReadEnd>>,
    /// What is being read, and whether that still counts: what was heard since is newer.
    under_way: BTreeMap<String, bool>,
}

impl<'s> FollowedSource<'s> {
    async fn follow_at(source: &'s SeatedSource, signals: &'s SourceSignals, link: SharedLink) -> FollowEnd {
        let uris = signals.followed(|uri| source.source.owns(uri));
        let opening = OpenFollow::open(link.clone(), uris.clone(), true);
        let Ok(Some(whole)) = tokio::time::timeout(OPEN_WITHIN, opening).await else { return FollowEnd::Lost };
        let (due, reading, under_way) = Default::default();
        let mut followed = Self { source, signals, link, follows: vec![whole], due, reading, under_way };
        // The resources may be others than whoever looked before saw.
        signals.list_changed();
        if signals.is_ready() {
            // Nobody heard what happened before: the contents decide.
            followed.due.extend(uris.into_iter().map(|uri| (uri, DueRead::after(0))));
        }
        signals.ready();
        followed.go_on().await
    }

    async fn go_on(&mut self) -> FollowEnd {
        let mut tidy = tokio::time::interval(TIDY);
        tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut opening = None;
        loop {
            if opening.is_none() {
                opening = self.open_more();
            }
            self.begin_reads();
            match self.next(&mut opening, &mut tidy).await {
                FollowStep::Heard(Heard::Updated(uri, seen)) => self.updated(&uri, seen),
                FollowStep::Heard(Heard::ListChanged) => self.signals.list_changed(),
                FollowStep::Heard(Heard::Ended) | FollowStep::Opened(None) => return FollowEnd::Lost,
                FollowStep::Opened(Some(opened)) => {
                    opening = None;
                    self.due.extend(opened.uris.iter().map(|uri| (uri.clone(), DueRead::after(0))));
                    self.follows.push(opened);
                }
                FollowStep::Read(end) => self.compare(end),
                FollowStep::Awaited => {}
                FollowStep::Tidy if self.is_untidy() => return FollowEnd::Untidy,
                FollowStep::Tidy => {}
            }
        }
    }

    async fn next(&mut self, opening: &mut Option<Opening<'s>>, tidy: &mut Interval) -> FollowStep {
        let heard = select_all(self.follows.iter_mut().map(|follow| Box::pin(follow.next())));
        let opened = async {
            match opening {
                Some(opening) => opening.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (heard, ..) = heard => FollowStep::Heard(heard),
            Some(end) = self.reading.next() => FollowStep::Read(end),
            opened = opened => FollowStep::Opened(opened),
            () = self.source.looks.bell.notified() => FollowStep::Awaited,
            _ = tidy.tick() => FollowStep::Tidy,
        }
    }

    /// What a first look is waited for: read, and followed where it is not yet.
    fn open_more(&mut self) -> Option<Opening<'s>> {
        let mut new = Vec::new();
        for uri in self.source.looks.uris() {
            match self.follows.iter().any(|follow| follow.uris.contains(&uri)) {
                true if !self.under_way.contains_key(&uri) => {
                    self.due.entry(uri).or_insert_with(|| DueRead::after(0));
                }
                true => {}
                false => new.push(uri),
            }
        }
        let opening = (!new.is_empty()).then(|| OpenFollow::open(self.link.clone(), new, false))?;
        Some(Box::pin(async move { tokio::time::timeout(OPEN_WITHIN, opening).await.ok().flatten() }))
    }

    fn begin_reads(&mut self) {
        let now = Instant::now();
        while self.reading.len() < MOST_READS {
            let can_begin = |(uri, due): &(&String, &DueRead)| due.at <= now && !self.under_way.contains_key(*uri);
            let Some((uri, due)) = self.due.iter().find(can_begin) else { return };
            let (uri, tries) = (uri.clone(), due.tries);
            self.due.remove(&uri);
            self.under_way.insert(uri.clone(), true);
            let link = self.link.clone();
            let reading = async move {
                let seen = match read(link, &uri).await {
                    Ok(content) => Ok(Some(hash(&content.bytes))),
                    Err(AskFault::Refused(reason)) if reason.is_absence() => Ok(None),
                    Err(fault) => Err(fault),
                };
                (uri, tries, seen)
            };
            self.reading.push(reading.boxed());
        }
    }

    /// Whoever looks has seen something else: that is newer than all that is read.
    fn updated(&mut self, uri: &str, seen: Option<Hash>) {
        self.due.remove(uri);
        if let Some(counts) = self.under_way.get_mut(uri) {
            *counts = false;
        }
        self.signals.heard(uri, seen, self.source.looks.are_awaited(uri));
        self.source.looks.done(uri);
    }

    fn compare(&mut self, (uri, tries, seen): ReadEnd) {
        if self.under_way.remove(&uri) != Some(true) {
            return;
        }
        match seen {
            // What a follower begins with is no change.
            Ok(seen) if self.source.looks.are_awaited(&uri) => self.signals.baseline(&uri, seen),
            Ok(seen) => self.signals.observed(&uri, seen),
            // That it can not be had says nothing about what it is.
            Err(_) if self.signals.follows(&uri) => {
                self.due.insert(uri.clone(), DueRead::after(tries + 1));
            }
            Err(_) => {}
        }
        self.source.looks.done(&uri);
    }

    /// Lets go of what nobody follows here any more. True: most of it is to be begun anew.
    fn is_untidy(&mut self) -> bool {
        let signals = self.signals;
        let is_followed = |uri: &String| signals.follows(uri);
        let mut place = 0;
        self.follows.retain(|follow| {
            place += 1;
            place == 1 || follow.uris.iter().any(is_followed)
        });
        let all: usize = self.follows.iter().map(|follow| follow.uris.len()).sum();
        let left = self.follows.iter().flat_map(|follow| &follow.uris).filter(|uri| is_followed(uri)).count();
        left * 2 < all || self.follows.len() > MOST_FOLLOWS
    }
}
