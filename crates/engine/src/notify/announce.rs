//! Telling clients what changed: the ledger decides, the transport takes, and only then is it settled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use serde_json::Value;
use tidings_hub::ServerId;
use tidings_hub::deliveries::{Deliveries, OwedLists};
use tidings_hub::ledger::{CommitOccasion, FollowerBaseline, FollowerId, Ledger, Topic, Topics, ViewDigests};
use tidings_proto::{Era, TraceContext};
use tidings_wire::Digest;
use tokio::sync::{Notify, mpsc};

use crate::client::bells::FollowerBell;
use crate::client::person_view::PersonView;
use crate::client::principal::ViewKey;
use crate::client::session::{Caller, Session};
use crate::notify::ListNotifier;
use crate::notify::listeners::Listed;
use crate::notify::notices::{ListNotice, Notice, OwedNotice, plain};
use crate::notify::summary::{self, Basis, SummaryCursors};
use crate::observe::change_spans::{self, CommitSpans};
use crate::observe::status::Catalogue;
use crate::observe::telemetry::OpenSpan;
use crate::servers::server::Server;
use crate::subscriptions::Receipt;

/// The ledger, and what those who ask for summaries were told. Behind one lock: nothing on the path of a call touches it.
pub(crate) struct Announcements {
    pub(super) ledger: Ledger<ViewKey>,
    told: SummaryCursors,
    /// For people to see, and for hints.
    pub(super) deliveries: Deliveries,
    /// For whoever exports traces.
    commits: CommitSpans,
}

impl Default for Announcements {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            told: SummaryCursors::default(),
            deliveries: Deliveries::new(Instant::now()),
            commits: CommitSpans::default(),
        }
    }
}

impl Announcements {
    /// A follower begins, in the ledger and for people to see.
    fn follow(
        &mut self,
        follower: FollowerId,
        view_key: ViewKey,
        topics: Topics,
        (baseline, now): (FollowerBaseline, ViewDigests),
        on_channel: bool,
    ) {
        self.ledger.follow(follower, view_key, topics, baseline, now);
        self.deliveries.came(follower, self.ledger.place_of(follower).unwrap_or_default(), topics, on_channel);
    }

    /// What a follower is owed because it changed. A session that is still owed the notice of its beginning is owed what changed since
    /// by the same notice, and that counts from then.
    pub(super) fn owed_lists(&self, follower: FollowerId) -> Option<OwedLists> {
        let owed = self.ledger.owed(follower);
        if owed.is_empty() {
            return None;
        }
        let mut changed = Topics::default();
        let mut since = self.ledger.owed_since(follower);
        for topic in owed.iter() {
            if let Some(at) = self.deliveries.owed_since(follower, topic) {
                changed.insert(topic);
                since = Some(since.map_or(at, |since| since.min(at)));
            }
        }
        let topics = if changed.is_empty() { owed } else { changed };
        since.map(|since| OwedLists { topics, since })
    }

    /// A follower can read a view of its own; says whether it is owed anything by this.
    fn show_own(&mut self, follower: FollowerId, at: Instant, digests: ViewDigests) -> bool {
        let before = self.ledger.owed(follower);
        let owes = self.ledger.show_own(follower, at, digests);
        let mut fresh = self.ledger.owed(follower);
        before.iter().for_each(|topic| fresh.remove(topic));
        self.deliveries.owes_own(follower, fresh);
        owes
    }
}

/// What a commit leaves to do and to say.
#[must_use]
pub(crate) struct Committed {
    /// Sessions that have views of their own: those have to be looked at again.
    pub(crate) own: Vec<Arc<Session>>,
    /// Whether there are listens that see what their person sees, over links of their own.
    pub(crate) has_own_listens: bool,
    /// Its number, if it changed what somebody may see.
    pub(crate) number: Option<u64>,
}

/// One `subscriptions/listen`, from its acknowledgement to its end.
pub(crate) struct Listening {
    notifier: Arc<ListNotifier>,
    pub(crate) follower: FollowerId,
    bell: Arc<Notify>,
    /// The acknowledgement that is on its way, if this follows resources.
    pub(crate) receipt: Option<Receipt>,
    pub(crate) follows: bool,
    /// What is to be told of the tasks that it names.
    pub(crate) tasks: Option<mpsc::Receiver<Bytes>>,
    /// Its entry among those that are shown to people.
    pub(crate) listed: Option<Listed>,
    /// Whose view it is told of, where that is another than everybody's.
    pub(crate) person: Option<Arc<PersonView>>,
}

impl ListNotifier {
    /// What a client is told of these: `notifications.suppress` may silence its revision, and its capabilities say so.
    pub(crate) fn announced_to(&self, caller: &Caller, topics: Topics) -> Topics {
        let announcements = &self.runtime.settings.announcements;
        announcements.told_to(caller.revision(), caller.profile().map(AsRef::as_ref)).and(topics)
    }

    /// The lists of whose changes a session is told.
    fn told_lists(&self, session: &Session) -> Topics {
        self.runtime.settings.announcements.told_to(session.revision, session.client.profile.as_deref())
    }

    /// Registers a listener: first the baseline is taken, then the acknowledgement may be written. `own`: the hash of what it sees
    /// over links of its own.
    pub(crate) fn listen(
        self: &Arc<Self>,
        view_key: ViewKey,
        topics: Topics,
        capabilities: &Value,
        own: Option<ViewDigests>,
    ) -> Listening {
        let follower = FollowerId::from(self.sessions.new_client());
        let bell = Arc::new(Notify::new());
        let mut announcements = self.announcements();
        // Commits take this lock too: a change comes either before the baseline or after it.
        let now = view_key.digests(&self.catalogue.current().snapshot);
        // Summaries compare states of the shared catalogue, which is not what such a listener sees.
        if summary::asked(capabilities) && own.is_none() {
            announcements.told.follow(follower, view_key.clone(), true);
        }
        announcements.follow(follower, view_key, topics, (FollowerBaseline::Current, now), false);
        if let Some(own) = own {
            announcements.show_own(follower, Instant::now(), own);
        }
        // Under the lock of the announcements: a commit that owes this follower something finds its bell.
        self.bells.insert(follower, FollowerBell::Listen(Arc::clone(&bell)));
        let (receipt, tasks, listed, person) = Default::default();
        Listening { notifier: Arc::clone(self), follower, bell, receipt, follows: false, tasks, listed, person }
    }

    /// Commits a change of the catalogue: then it can be read, and everybody whose view it changed is owed a notice. `cause`: the span of
    /// what led to it.
    pub(crate) fn commit(
        &self,
        cause: Option<&TraceContext>,
        occasion: &CommitOccasion,
        change: impl FnOnce(&mut Catalogue),
    ) -> Committed {
        let span = self.runtime.telemetry.as_deref().map(|sink| (sink, OpenSpan::begin(sink, cause)));
        let (bells, own, number, states) = {
            let mut announcements = self.announcements();
            let old = Arc::clone(&self.catalogue.current().snapshot);
            // The change itself runs under the lock of the announcements, so that a follower's baseline and the ledger
            // always speak of the same state.
            self.catalogue.update(change);
            let snapshot = Arc::clone(&self.catalogue.current().snapshot);
            let done = announcements.ledger.commit(occasion, |view_key| view_key.digests(&snapshot));
            self.meters.committed(&done);
            let changed = announcements.ledger.changed_views();
            // Most commits only say how servers are.
            let is_change = !occasion.touched.is_empty() || changed != [0; 3];
            let number = is_change.then(|| announcements.deliveries.committed(occasion.at, millis(), &done, changed));
            if let Some((_, span)) = span.as_ref().filter(|_| is_change) {
                let mut topics = occasion.touched;
                Topic::ALL
                    .into_iter()
                    .filter(|topic| changed[*topic as usize] != 0)
                    .for_each(|topic| topics.insert(topic));
                announcements.commits.committed(occasion.at, topics, span.context.parent);
            }
            self.note_owed(&announcements, &done.owed);
            let Announcements { ledger, told, .. } = &mut *announcements;
            // Whoever is owed nothing has seen the new state as good as the old one, and needs no summary of it.
            told.commit(Arc::clone(&old), |follower| !ledger.owed(follower).is_empty() || ledger.holds(follower));
            (self.bells.of(&done.owed), self.bells.of(&done.own), number, (old, snapshot))
        };
        // After the locks are free, and after the new state can be read (invariant 1).
        bells.iter().for_each(FollowerBell::ring);
        if let Some(number) = number {
            self.departures.lock().committed(&states.0, &states.1, number);
            if let Some((sink, span)) = span {
                change_spans::committed(sink, span, number);
            }
        }
        let has_own_listens = own.iter().any(|bell| matches!(bell, FollowerBell::Listen(_)));
        let session = |bell| match bell {
            FollowerBell::Session(session) => Some(session),
            FollowerBell::Listen(_) => None,
        };
        Committed { own: own.into_iter().filter_map(session).collect(), has_own_listens, number }
    }

    /// Lists may have been answered elsewhere without their last change: whoever follows them is told once more.
    pub(crate) fn owe_again(&self, topics: Topics) {
        let bells = {
            let mut announcements = self.announcements();
            let owed = announcements.ledger.owe_again(topics, Instant::now());
            self.note_owed(&announcements, &owed);
            self.bells.of(&owed)
        };
        bells.iter().for_each(FollowerBell::ring);
    }

    /// The signals of a server are quiet: what was held for them is told now. One that nobody sees has signalled nothing: what is held
    /// under its id is for whoever has its place.
    pub(crate) fn release_notices(&self, server: &Server) {
        let bells = {
            let mut announcements = self.announcements();
            // Asked under the lock: servers come and go in commits, which take it too.
            if !server.presence.is_current() {
                return;
            }
            let owed = announcements.ledger.release(server.id);
            self.note_owed(&announcements, &owed);
            self.bells.of(&owed)
        };
        bells.iter().for_each(FollowerBell::ring);
    }

    /// Servers leave, or are replaced: nothing is held for their signals any more. Gives the bells to ring when that is committed, so that
    /// what they did before and that they leave is one notice.
    #[must_use]
    pub(crate) fn release_leaving(&self, servers: &[ServerId]) -> Vec<FollowerBell> {
        let mut announcements = self.announcements();
        let owed: Vec<FollowerId> = servers.iter().flat_map(|server| announcements.ledger.release(*server)).collect();
        self.note_owed(&announcements, &owed);
        self.bells.of(&owed)
    }

    /// Whether somebody is told of lists.
    pub(crate) fn is_followed_by(&self, follower: FollowerId) -> bool {
        self.bells.contains(follower)
    }

    /// Wakes every listen: there is something for it that it has to ask for.
    pub(crate) fn wake_listens(&self) {
        self.bells.ring_listens();
    }

    /// A follower has a view of its own from now on, which begins as that of others: it is owed what differs in the next.
    pub(crate) fn begin_own(&self, follower: FollowerId) {
        let mut announcements = self.announcements();
        announcements.ledger.begin_own(follower);
        // Summaries compare states of the shared catalogue, which is not what it sees any more.
        announcements.told.unfollow(follower);
    }

    /// A session can read a view of its own: it is owed what differs from the one before.
    pub(crate) fn show_own(&self, session: &Arc<Session>, digests: ViewDigests, at: Instant) {
        let mut announcements = self.announcements();
        // Kept for a session that is not ready yet: it begins with this when it follows.
        *session.own_view.digests.lock() = Some(digests);
        let follower = FollowerId::from(session.key);
        let owes = announcements.show_own(follower, at, digests);
        self.note_owed(&announcements, &[follower]);
        drop(announcements);
        if owes {
            session.sink.wake();
        }
    }

    /// The same for a listen, whose person can read another view.
    pub(crate) fn show_own_listen(&self, follower: FollowerId, digests: ViewDigests, at: Instant) {
        let owes = {
            let mut announcements = self.announcements();
            let owes = announcements.show_own(follower, at, digests);
            self.note_owed(&announcements, &[follower]);
            owes
        };
        if owes {
            self.bells.ring(follower, &self.sessions);
        }
    }

    fn follow_session(self: &Arc<Self>, session: &Arc<Session>) {
        let is_new =
            self.runtime.settings.announcements.initially || session.progress.listed_early.load(Ordering::Relaxed);
        self.follow_session_from(session, if is_new { FollowerBaseline::Nothing } else { FollowerBaseline::Current });
    }

    fn follow_session_from(self: &Arc<Self>, session: &Arc<Session>, baseline: FollowerBaseline) {
        let follower = FollowerId::from(session.key);
        {
            let mut announcements = self.announcements();
            // Two tasks may get here, by `initialized` and by the first list; the second must not take a new baseline.
            if self.bells.contains(follower) || !self.sessions.contains(session.key) {
                return;
            }
            let view_key = session.view_key();
            let now = view_key.digests(&self.catalogue.current().snapshot);
            let on_channel = session.channel.is_some();
            let topics = self.told_lists(session);
            announcements.follow(follower, view_key.clone(), topics, (baseline, now), on_channel);
            self.bells.insert(follower, FollowerBell::Session(Arc::clone(session)));
            // Summaries compare states of the shared catalogue, which is not what such a session sees.
            if (on_channel || summary::asked(&session.client.capabilities)) && !self.pool.has_isolated() {
                announcements.told.follow(follower, view_key, baseline == FollowerBaseline::Current);
            }
            // It may have asked before it said that it is ready.
            if let Some(own) = *session.own_view.digests.lock() {
                announcements.show_own(follower, Instant::now(), own);
            }
        }
        // It may be owed something from its very beginning.
        session.sink.wake();
    }

    /// A session is about to be shown a list: whatever changes after that is owed to it, so it has to follow first. One that is not
    /// ready yet is told of everything once when it is.
    pub(crate) fn follow_before_listing(self: &Arc<Self>, session: &Arc<Session>) {
        // Such a session is told of everything once, so it has nothing to miss.
        if self.runtime.settings.announcements.initially || self.told_lists(session).is_empty() {
            return;
        }
        match session.is_initialized() {
            true => self.follow_session(session),
            false => session.progress.listed_early.store(true, Ordering::Relaxed),
        }
    }

    /// A session whose revision is told of nothing: what it is not told is counted.
    fn ignore_session(&self, session: &Session) {
        let mut announcements = self.announcements();
        // It may have ended while the servers were waited for; nobody would take it out again.
        if self.sessions.contains(session.key) {
            announcements.ledger.ignore(FollowerId::from(session.key));
        }
    }

    /// The hash of each list that a session needs no notice of.
    pub(crate) fn told_to(&self, follower: FollowerId) -> [Option<Digest>; 3] {
        self.announcements().ledger.told(follower)
    }

    pub(crate) fn unfollow(&self, follower: FollowerId) {
        let mut announcements = self.announcements();
        announcements.ledger.unfollow(follower);
        self.bells.remove(follower);
        announcements.told.unfollow(follower);
        announcements.deliveries.left(follower, Instant::now());
    }

    fn deliver(&self, follower: FollowerId, era: Era, follows: bool) -> VecDeque<Notice> {
        let mut notices = self.deliver_lists(follower, era);
        if follows {
            notices.extend(self.subscriptions.take_updates(follower, era).into_iter().map(Notice::Resource));
        }
        notices
    }

    fn deliver_lists(&self, follower: FollowerId, era: Era) -> VecDeque<Notice> {
        let (topics, basis, causes, changes, commit) = {
            let mut announcements = self.announcements();
            // Settled here, though the bytes are written a moment later: every caller hands them to a transport that
            // keeps them until they are written.
            let delivery = announcements.ledger.deliver(follower);
            if delivery.topics.is_empty() {
                return VecDeque::new();
            }
            let now = Instant::now();
            self.meters.delivered(era, &delivery, now);
            // What a fresh follower is told stands for no change.
            let mut changes = Topics::default();
            for topic in delivery.topics.iter().filter(|topic| delivery.since[*topic as usize].is_some()) {
                changes.insert(topic);
            }
            let outdated = announcements.deliveries.told(follower, delivery.topics, changes, now);
            self.note_told(follower, era, outdated);
            // A commit takes this lock too, so this is the state that the ledger speaks of.
            let now = Arc::clone(&self.catalogue.current().snapshot);
            let causes = self.runtime.telemetry.as_ref().map(|sink| {
                let commits = |topic: Topic| {
                    delivery.since[topic as usize].map(|since| announcements.commits.since(topic, since.commit))
                };
                (sink, Topic::ALL.map(|topic| commits(topic).unwrap_or_default()))
            });
            let commit = announcements.deliveries.newest_number();
            (delivery.topics, announcements.told.deliver(follower, &now), causes, changes, commit)
        };
        if let Some((sink, causes)) = causes {
            for (topic, commits) in Topic::ALL.into_iter().zip(causes).filter(|(topic, _)| topics.contains(*topic)) {
                change_spans::delivered(sink, topic, era, follower.0, commits);
            }
        }
        let notice = |topic: Topic| ListNotice {
            topic,
            summary: self.summary(&basis, topic),
            change: changes.contains(topic).then_some(commit),
        };
        topics.iter().map(|topic| Notice::List(notice(topic))).collect()
    }

    /// What changed, for a follower that asks. The states are compared without the lock, and once for all who were told
    /// of the same state.
    fn summary(&self, basis: &Basis, topic: Topic) -> Option<Arc<str>> {
        let interval = match basis {
            Basis::None => return None,
            Basis::Forgotten => return Some(summary::FORGOTTEN.into()),
            Basis::Known(interval) => interval,
        };
        let known = self.announcements().told.summary(interval, topic);
        known.or_else(|| {
            let made = interval.summary(topic, self.runtime.settings.view);
            // Two that come at once may both make it; the text is the same, so one of them is merely forgotten.
            self.announcements().told.remember(interval, topic, &made);
            Some(made)
        })
    }
}

impl ListNotifier {
    /// A legacy client has said `initialized`: once the servers have settled it follows all lists, unless its revision
    /// is told of nothing.
    pub(crate) fn initialized(self: &Arc<Self>, session: &Arc<Session>) {
        self.follow_after_start(session, None);
    }

    /// As [`Self::initialized`], also for a session of an earlier process, whose `baseline` is what it was told then.
    pub(crate) fn follow_after_start(self: &Arc<Self>, session: &Arc<Session>, baseline: Option<FollowerBaseline>) {
        session.progress.initialized.store(true, Ordering::Relaxed);
        if self.told_lists(session).is_empty() {
            return self.ignore_session(session);
        }
        let follow = move |notifier: &Arc<Self>, session: &Arc<Session>| match baseline {
            Some(baseline) => notifier.follow_session_from(session, baseline),
            None => notifier.follow_session(session),
        };
        if !self.catalogue.starting() {
            return follow(self, session);
        }
        let notifier = Arc::clone(self);
        let session = Arc::clone(session);
        self.runtime.spawn(async move {
            let settled = notifier.catalogue.wait_settled();
            // Nobody waits for servers that do not start when everything ends.
            if notifier.runtime.stop.run_until_cancelled(settled).await.is_some() {
                follow(&notifier, &session);
            }
        });
    }

    /// Hands over the announcements a session is owed, a limited number at a time. They count as delivered: the transport has each
    /// when `pass` returns, and whatever the client is answered later comes after them. Tells whether there was any: the
    /// transport comes again until there is none.
    pub(crate) fn pass_owed(&self, session: &Session, mut pass: impl FnMut(OwedNotice)) -> bool {
        // Held until the transport has everything: `unsubscribe` waits for it, so that no notice comes after its
        // answer.
        let _delivering = session.delivery.delivering.lock();
        let mut notices = self.deliver(FollowerId::from(session.key), Era::Legacy, true);
        let any = !notices.is_empty();
        if notices.iter().any(|notice| matches!(notice, Notice::Resource(_))) {
            *session.delivery.last_update.lock() = Some(Instant::now());
        }
        let sent = session.channel.as_ref().and_then(|channel| self.send_on_channel(session, channel, &mut notices));
        notices.into_iter().map(plain).for_each(&mut pass);
        // After the notices: whoever reads it may ask for the lists at once.
        sent.into_iter().for_each(pass);
        any
    }

    /// The announcements a session is owed, also those that wait for the servers to settle (at the end of its input).
    pub(crate) async fn take_last_owed(self: &Arc<Self>, session: &Arc<Session>) -> Vec<Bytes> {
        if self.catalogue.starting() && session.is_initialized() {
            self.catalogue.wait_settled().await;
            // The task that waits for the servers may not have run yet, and the input is over.
            self.initialized(session);
        }
        let mut owed = Vec::new();
        while self.pass_owed(session, |notice| owed.push(notice.message)) {}
        owed
    }
}

impl Listening {
    /// Whether it began before its person had servers for themselves, and is not told of those yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.person.is_none() && self.notifier.pool.has_personal()
    }

    /// Waits for the next announcements. There are none where it is behind: it has to be joined to its person first.
    pub(crate) async fn next(&mut self) -> VecDeque<Notice> {
        // Whoever asks for more has the acknowledgement.
        self.receipt = None;
        loop {
            let notices = self.notifier.deliver(self.follower, Era::Modern, self.follows);
            if !notices.is_empty() || self.is_behind() {
                return notices;
            }
            // Its permit is kept, so a bell that rang since `deliver` is not lost.
            let rung = self.bell.notified();
            let Some(tasks) = &mut self.tasks else {
                rung.await;
                continue;
            };
            tokio::select! {
                () = rung => {}
                told = tasks.recv() => match told {
                    Some(task) => return VecDeque::from([Notice::Task(task)]),
                    // Nobody asks for them any more: the gateway ends.
                    None => self.tasks = None,
                },
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(person) = &self.person {
            person.left(self.follower);
        }
        self.notifier.unfollow(self.follower);
        if self.follows {
            self.notifier.subscriptions.follows_no_more(self.follower);
        }
    }
}

/// The wall clock, in milliseconds since 1970.
fn millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
