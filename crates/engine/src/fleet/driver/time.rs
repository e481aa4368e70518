//! What the driver does by the clock: beats, what is written again, what people are shown; and the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidings_cluster::{AppendId, FleetBus as _};
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::members::{BEAT_EVERY, ReplicaBeat};
use tidings_hub::fleet::{LogSequence, ReplicaId};

use super::{FORMAT, FleetDriver, TICK};
use crate::fleet::desk::LEAVE_WITHIN;
use crate::fleet::shown::{FleetShown, ReplicaShown, ReplicaState};

/// The reader is made anew when the end of the log is known and not read for this long: the bus needs ten seconds to notice a lost leader.
const READ_STALLED: Duration = Duration::from_millis(500);
/// A plan that nothing became of is written again.
const PLAN_AGAIN: Duration = Duration::from_secs(2);

impl FleetDriver {
    pub(super) fn tick(&mut self) {
        let now = Instant::now();
        let events = self.members.tick(now);
        self.members_changed(events);
        let head = self.members.head();
        let applied = self.fold.state().sequence();
        let is_doubled = self.local.namesake_until.is_some_and(|until| until >= now);
        self.drive_change(now);
        self.drive_decisions(now);
        // While a change of the set is applied, seats are those of before it.
        if self.local.trouble.is_none() && !self.local.leaving && !is_doubled && self.set.applying.is_none() {
            let commands = self.ownership.tick(self.fold.state(), &self.members, now);
            self.own(commands);
            self.write_offers(now);
            self.write_plan(now);
            if self.fold.state().sequence() >= head {
                self.keep_state(now);
                self.drop_lists(now);
                self.mind_missing_lists(now);
            }
            if let Some(echo) = self.reads.echo_due(now) {
                self.append(echo);
            }
        }
        // Not while a change of the set is applied, which takes a moment: the state has it, and lists do not.
        let is_applying = self.set.applying.is_some() || self.decisions.owes();
        if now >= self.local.pace.next_beat && (!is_applying || now >= self.local.pace.next_beat + BEAT_EVERY) {
            self.local.pace.next_beat = now + BEAT_EVERY;
            self.beat(now);
        }
        let commands = self.reads.drive(now);
        self.index(commands);
        let steps = self.forwarded.outgoing.tick(now);
        self.sent(steps);
        let steps = self.carried.incoming.tick(now);
        self.took(steps);
        self.local.pace.behind_since = (applied < head).then(|| self.local.pace.behind_since.unwrap_or(now));
        if self.local.pace.behind_since.is_some_and(|since| now.duration_since(since) > READ_STALLED) {
            self.read_again();
        }
        if !self.members.is_in_doubt(now)
            && applied >= head
            && head > LogSequence(0)
            && self.set.applying.is_none()
            && !self.decisions.owes()
        {
            self.desk.joined.store(true, Ordering::Relaxed);
        }
        self.pass_on_waiting();
        self.set_direct();
        self.set_unplaced(now);
        self.show(now);
    }

    pub(super) fn beat(&mut self, now: Instant) {
        self.local.pace.beats += 1;
        self.members.beat_sent(self.local.pace.beats, now);
        let state = self.fold.state();
        let beat = ReplicaBeat {
            replica: self.local.me.clone(),
            number: self.local.pace.beats,
            applied: state.sequence(),
            generation: state.generation(),
            digest: state.digest(),
            config: self.local.config,
            labels: self.desk.settings.labels.clone(),
            unfit: self.ownership.unfit(now),
            format: FORMAT,
            leaving: self.local.leaving,
        };
        let bus = Arc::clone(&self.outward.bus);
        self.desk.tasks.spawn(async move {
            if let Err(error) = bus.beat(&beat).await {
                tracing::debug!(%error, "a beat was not sent");
            }
        });
    }

    /// The file of most replicas is in force: one of them writes so.
    pub(super) fn write_plan(&mut self, now: Instant) {
        let state = self.fold.state();
        let is_behind = state.sequence() < self.members.head();
        if now < self.local.pace.next_plan
            || state.config() == Some(self.local.config)
            || is_behind
            || self.members.is_in_doubt(now)
            || !self.members.most_have(self.local.config, self.local.config)
        {
            return;
        }
        self.local.pace.next_plan = now + PLAN_AGAIN;
        let (version, config, servers) = (state.set_version() + 1, self.local.config, self.local.plan.clone());
        self.append(FleetEntry::Plan { version, config, servers });
    }

    pub(super) async fn leave(&mut self) {
        self.local.leaving = true;
        let owned: Vec<_> = self.running.iter().map(|(name, epoch)| (name.clone(), *epoch)).collect();
        let _ = self.ownership.leave();
        self.running.clear();
        let released = owned.into_iter().map(|(server, epoch)| {
            self.local.pace.appends += 1;
            let id = AppendId(format!("{:016x}-{}", self.local.me.incarnation, self.local.pace.appends));
            let bus = Arc::clone(&self.outward.bus);
            async move { bus.append(&id, &FleetEntry::Own { server, epoch, replica: None }, None).await.is_ok() }
        });
        let _ = tokio::time::timeout(LEAVE_WITHIN, futures_util::future::join_all(released)).await;
        self.beat(Instant::now());
        // The beat leaves beside this.
        tokio::task::yield_now().await;
        tokio::time::sleep(TICK).await;
        self.outward.bus.close().await;
    }

    pub(super) fn show(&self, now: Instant) {
        let state = self.fold.state();
        let owned = |replica: &ReplicaId| -> Vec<String> {
            let owned = state.servers().iter().filter(|(_, server)| server.owner.as_ref() == Some(replica));
            owned.map(|(name, _)| name.to_string()).collect()
        };
        let mine = if self.members.connected_for(now).is_zero() || !self.outward.bus.is_connected() {
            ReplicaState::Isolated
        } else if !self.desk.joined.load(Ordering::Relaxed) {
            ReplicaState::Joining
        } else if self.local.trouble.is_some() || !self.reads.is_confirmed() || self.members.is_in_doubt(now) {
            ReplicaState::Unconfirmed
        } else {
            ReplicaState::Connected
        };
        let force = state.config();
        let mut replicas = vec![ReplicaShown {
            name: self.local.me.name.as_str().to_owned(),
            incarnation: self.local.me.incarnation,
            state: mine,
            applied: state.sequence().0,
            has_config: force.is_none_or(|force| force == self.local.config),
            servers: owned(&self.local.me),
            is_this: true,
        }];
        replicas.extend(self.members.live().map(|beat| ReplicaShown {
            name: beat.replica.name.as_str().to_owned(),
            incarnation: beat.replica.incarnation,
            state: if beat.leaving { ReplicaState::Leaving } else { ReplicaState::Connected },
            applied: beat.applied.0,
            has_config: force.is_none_or(|force| force == beat.config),
            servers: owned(&beat.replica),
            is_this: false,
        }));
        replicas.sort_by(|one, other| one.name.cmp(&other.name));
        self.desk.confirmed.store(mine == ReplicaState::Connected, Ordering::Relaxed);
        // The end of the log is asked for when somebody reads; what was read or said to be read since then is there, too.
        let read = replicas.iter().map(|replica| replica.applied).max().unwrap_or_default();
        *self.desk.shown.lock() = Some(FleetShown {
            name: self.desk.settings.name.clone(),
            head: self.members.head().0.max(read),
            trouble: self.local.trouble.clone().or_else(|| {
                let is_doubled = self.local.namesake_until.is_some_and(|until| until >= now);
                is_doubled.then(|| format!("another process is replica \"{}\" too", self.local.me.name.as_str()))
            }),
            replicas,
            counts: Default::default(),
        });
    }
}
