//! Who runs which server.
//!
//! ```text
//! Away ─owner gone─▶ Wanting ─rank × 100 ms─▶ Claiming ─entry holds─▶ Owner(epoch) ─nothing proves it─▶ in doubt
//!   ▲                                             │ void                  ▲                                  │
//!   ├─────────────────────────────────────────────┘                       └─ back, same epoch: list all ─────┤
//!   └─ drained, ended ◀─ Retiring ◀─ newer epoch in the log ─────────────────────────────────────────────────┘
//!
//! Owner ─did not start, or must not run here─▶ Giving ─its process has ended─▶ Releasing ─nobody's in the log─▶ Away
//! ```
//!
//! That somebody seems to be gone is only a reason to claim; whether a claim holds is decided by the log, for everybody alike.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::entry::IsolationRule;
use super::fold::{FleetServer, FleetState};
use super::members::{FleetMembers, ReplicaBeat};
use super::{BlobHash, FleetServerName, OwnerEpoch, ReplicaId, ReplicaName};

/// Replicas claim one after the other, those that are to have a server first: mostly one entry is written.
const RANK_STEP: Duration = Duration::from_millis(100);
/// A claim that nothing became of is written again; the second copy is void.
const CLAIM_AGAIN: Duration = Duration::from_secs(2);
/// The next owner of a server of which there may be only one waits this long after its claim, unless the former said that it ended it.
const FORMER_ENDS: Duration = Duration::from_secs(3);
/// How long calls of a server that has another owner may still take.
const DRAIN: Duration = Duration::from_secs(30);
/// A replica on which a server did not start leaves it to others for this long.
const UNFIT: Duration = Duration::from_secs(60);
/// How many of these the others are told of: a beat stays small. Of the rest they believe that they might start here.
const UNFIT_TOLD: usize = 64;

/// What the owner of processes has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipCommand {
    /// Write that this replica owns the server, ending this epoch.
    Claim {
        /// Which one.
        server: FleetServerName,
        /// The epoch to end.
        epoch: OwnerEpoch,
    },
    /// Write that nobody owns it, once its process has ended.
    Release {
        /// Which one.
        server: FleetServerName,
        /// The epoch to end.
        epoch: OwnerEpoch,
    },
    /// Start it and list everything.
    Start {
        /// Which one.
        server: FleetServerName,
        /// The epoch for its offers.
        epoch: OwnerEpoch,
    },
    /// List everything again: what it said meanwhile could not be committed.
    ListAll {
        /// Which one.
        server: FleetServerName,
        /// The epoch for its offers.
        epoch: OwnerEpoch,
    },
    /// Let its calls finish, and take no more.
    Retire(FleetServerName),
    /// End its process now.
    End(FleetServerName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnershipPhase {
    Wanting {
        at: Instant,
        epoch: OwnerEpoch,
    },
    Claiming {
        epoch: OwnerEpoch,
        again: Instant,
        released: bool,
    },
    Starting {
        epoch: OwnerEpoch,
        at: Instant,
    },
    Running {
        epoch: OwnerEpoch,
    },
    Doubt {
        epoch: OwnerEpoch,
        stopped: bool,
    },
    Retiring {
        until: Instant,
    },
    /// It is to be another's, once its process here has ended.
    Giving {
        epoch: OwnerEpoch,
    },
    /// It has ended; that nobody owns it is being written.
    Releasing {
        epoch: OwnerEpoch,
        again: Instant,
    },
}

/// What is known when a server is looked at.
#[derive(Clone, Copy)]
struct OwnershipFacts<'a> {
    name: &'a FleetServerName,
    server: &'a FleetServer,
    state: &'a FleetState,
    members: &'a FleetMembers,
    now: Instant,
}

/// Which servers this replica runs.
#[derive(Clone, Debug)]
pub struct FleetOwnership {
    me: ReplicaId,
    labels: Vec<String>,
    config: BlobHash,
    phases: BTreeMap<FleetServerName, OwnershipPhase>,
    unfit: BTreeMap<FleetServerName, Instant>,
    leaving: bool,
}

impl FleetOwnership {
    /// Owns nothing.
    pub fn new(me: ReplicaId, labels: Vec<String>, config: BlobHash) -> Self {
        Self { me, labels, config, phases: BTreeMap::new(), unfit: BTreeMap::new(), leaving: false }
    }

    /// The epoch in which this replica may commit for a server and take calls of others for it.
    pub fn serves(&self, server: &FleetServerName) -> Option<OwnerEpoch> {
        match self.phases.get(server)? {
            OwnershipPhase::Running { epoch } => Some(*epoch),
            _ => None,
        }
    }

    /// How many servers this replica runs.
    pub fn owned(&self) -> usize {
        let runs = |phase: &&OwnershipPhase| {
            matches!(
                phase,
                OwnershipPhase::Running { .. } | OwnershipPhase::Starting { .. } | OwnershipPhase::Doubt { .. }
            )
        };
        self.phases.values().filter(runs).count()
    }

    /// Looks at every server. Called with every beat, before anything is read after a pause, and when entries about servers were applied.
    pub fn tick(&mut self, state: &FleetState, members: &FleetMembers, now: Instant) -> Vec<OwnershipCommand> {
        let mut commands = Vec::new();
        self.unfit.retain(|_, until| *until > now);
        let removed: Vec<_> = self.phases.keys().filter(|name| !state.servers().contains_key(*name)).cloned().collect();
        for name in removed {
            // For these two no process was begun here.
            if !matches!(
                self.phases.remove(&name),
                Some(OwnershipPhase::Wanting { .. } | OwnershipPhase::Claiming { .. })
            ) {
                commands.push(OwnershipCommand::End(name));
            }
        }
        for (name, server) in state.servers() {
            self.look(OwnershipFacts { name, server, state, members, now }, &mut commands);
        }
        commands
    }

    /// Looks at one server, of which an entry was applied.
    pub fn applied(
        &mut self,
        name: &FleetServerName,
        state: &FleetState,
        members: &FleetMembers,
        now: Instant,
    ) -> Vec<OwnershipCommand> {
        let mut commands = Vec::new();
        if let Some(server) = state.servers().get(name) {
            self.look(OwnershipFacts { name, server, state, members, now }, &mut commands);
        }
        commands
    }

    /// This replica had started a server before it wrote that it owns it, and has read that back without a doubt in between: nobody else
    /// can have begun one, so nobody is waited for.
    pub fn began(&mut self, server: &FleetServerName, epoch: OwnerEpoch) -> OwnershipCommand {
        self.phases.insert(server.clone(), OwnershipPhase::Running { epoch });
        OwnershipCommand::Start { server: server.clone(), epoch }
    }

    /// A server did not start here. If there is a replica where it might, it gets it; else it is tried again here.
    pub fn start_failed(
        &mut self,
        name: &FleetServerName,
        state: &FleetState,
        members: &FleetMembers,
        now: Instant,
    ) -> Vec<OwnershipCommand> {
        self.unfit.insert(name.clone(), now + UNFIT);
        let Some(server) = state.servers().get(name) else { return Vec::new() };
        let facts = OwnershipFacts { name, server, state, members, now };
        match self.phases.get(name) {
            Some(OwnershipPhase::Running { epoch }) if rivals(facts).any(|beat| !beat.unfit.contains(name)) => {
                let epoch = *epoch;
                self.phases.insert(name.clone(), OwnershipPhase::Giving { epoch });
                vec![OwnershipCommand::End(name.clone())]
            }
            _ => Vec::new(),
        }
    }

    /// No process of a server is left here, nor is one being started.
    pub fn ended(&mut self, name: &FleetServerName, now: Instant) -> Vec<OwnershipCommand> {
        let Some(OwnershipPhase::Giving { epoch }) = self.phases.get(name) else { return Vec::new() };
        let epoch = *epoch;
        self.phases.insert(name.clone(), OwnershipPhase::Releasing { epoch, again: now + CLAIM_AGAIN });
        vec![OwnershipCommand::Release { server: name.clone(), epoch }]
    }

    /// The servers that did not start here in the last minute, for the beat.
    pub fn unfit(&self, now: Instant) -> Vec<FleetServerName> {
        let unfit = self.unfit.iter().filter(|(_, until)| **until > now);
        unfit.take(UNFIT_TOLD).map(|(name, _)| name.clone()).collect()
    }

    /// Whether nobody who is there, this replica among them, has the labels that a server asks for.
    pub fn is_unplaceable(&self, server: &FleetServer, members: &FleetMembers) -> bool {
        !has_labels(server, &self.labels) && !members.live().any(|beat| has_labels(server, &beat.labels))
    }

    /// Whether a server is this replica's and not running, because somebody else may run it.
    pub fn is_held_back(&self, name: &FleetServerName) -> bool {
        matches!(
            self.phases.get(name),
            Some(OwnershipPhase::Starting { .. } | OwnershipPhase::Doubt { stopped: true, .. })
        )
    }

    /// This replica ends: everything it runs is ended and given up, so that nobody has to wait.
    pub fn leave(&mut self) -> Vec<OwnershipCommand> {
        self.leaving = true;
        let mut commands = Vec::new();
        for (name, phase) in std::mem::take(&mut self.phases) {
            let server = name.clone();
            match phase {
                OwnershipPhase::Running { epoch } | OwnershipPhase::Doubt { epoch, .. } => {
                    commands.push(OwnershipCommand::End(name));
                    commands.push(OwnershipCommand::Release { server, epoch });
                }
                OwnershipPhase::Retiring { .. } => commands.push(OwnershipCommand::End(name)),
                // Its end was asked for, or is over.
                OwnershipPhase::Giving { epoch } | OwnershipPhase::Releasing { epoch, .. } => {
                    commands.push(OwnershipCommand::Release { server, epoch });
                }
                // Not given up while it starts: the former owner may not have ended it yet.
                OwnershipPhase::Wanting { .. } | OwnershipPhase::Claiming { .. } | OwnershipPhase::Starting { .. } => {}
            }
        }
        commands
    }

    fn look(&mut self, facts: OwnershipFacts<'_>, commands: &mut Vec<OwnershipCommand>) {
        if self.leaving {
            return;
        }
        let OwnershipFacts { name, server, .. } = facts;
        let phase = self.phases.remove(name);
        let mine = server.owner.as_ref() == Some(&self.me);
        let next =
            if mine { Some(self.owning(phase, facts, commands)) } else { self.elsewhere(phase, facts, commands) };
        if let Some(next) = next {
            self.phases.insert(name.clone(), next);
        }
    }

    /// The log says that this replica owns the server.
    fn owning(
        &self,
        phase: Option<OwnershipPhase>,
        facts: OwnershipFacts<'_>,
        commands: &mut Vec<OwnershipCommand>,
    ) -> OwnershipPhase {
        let OwnershipFacts { name, server, members, now, .. } = facts;
        let epoch = server.epoch;
        let stops = server.on_isolation() == IsolationRule::Stop;
        let doubt = members.is_in_doubt(now);
        // Its placement may have changed since it was claimed.
        let fits = has_labels(server, &self.labels);
        match phase {
            Some(OwnershipPhase::Running { epoch: of }) if of == epoch => {
                if !doubt && !fits {
                    return self.begin(facts, commands);
                }
                if !doubt {
                    return OwnershipPhase::Running { epoch };
                }
                if stops {
                    commands.push(OwnershipCommand::End(name.clone()));
                }
                OwnershipPhase::Doubt { epoch, stopped: stops }
            }
            Some(OwnershipPhase::Doubt { epoch: of, stopped }) if of == epoch => {
                // The end of the log has to be applied first: a newer epoch may stand in it.
                if doubt || facts.state.sequence() < members.head() {
                    return OwnershipPhase::Doubt { epoch, stopped };
                }
                if stopped || !fits {
                    return self.begin(facts, commands);
                }
                commands.push(OwnershipCommand::ListAll { server: name.clone(), epoch });
                OwnershipPhase::Running { epoch }
            }
            Some(OwnershipPhase::Giving { epoch: of }) if of == epoch => OwnershipPhase::Giving { epoch },
            Some(OwnershipPhase::Releasing { epoch: of, again }) if of == epoch => {
                if now < again {
                    return OwnershipPhase::Releasing { epoch, again };
                }
                commands.push(OwnershipCommand::Release { server: name.clone(), epoch });
                OwnershipPhase::Releasing { epoch, again: now + CLAIM_AGAIN }
            }
            Some(OwnershipPhase::Starting { epoch: of, at }) if of == epoch => {
                // Also one that must not run here is given up only then: that nobody owns it means that it runs nowhere.
                if now < at || doubt {
                    return OwnershipPhase::Starting { epoch, at };
                }
                self.begin(facts, commands)
            }
            former => {
                // What still drains is of an earlier epoch, and the next one must not run beside it.
                if matches!(former, Some(OwnershipPhase::Retiring { .. })) {
                    commands.push(OwnershipCommand::End(name.clone()));
                }
                let released = matches!(former, Some(OwnershipPhase::Claiming { released: true, .. }));
                if stops && !released {
                    return OwnershipPhase::Starting { epoch, at: now + FORMER_ENDS };
                }
                self.begin(facts, commands)
            }
        }
    }

    /// Runs the server from here on, or gives it up where it must not run.
    fn begin(&self, facts: OwnershipFacts<'_>, commands: &mut Vec<OwnershipCommand>) -> OwnershipPhase {
        let OwnershipFacts { name, server, .. } = facts;
        let epoch = server.epoch;
        if has_labels(server, &self.labels) {
            commands.push(OwnershipCommand::Start { server: name.clone(), epoch });
            return OwnershipPhase::Running { epoch };
        }
        commands.push(OwnershipCommand::End(name.clone()));
        OwnershipPhase::Giving { epoch }
    }

    /// The log says that somebody else owns the server, or nobody.
    fn elsewhere(
        &self,
        phase: Option<OwnershipPhase>,
        facts: OwnershipFacts<'_>,
        commands: &mut Vec<OwnershipCommand>,
    ) -> Option<OwnershipPhase> {
        let OwnershipFacts { name, server, members, now, .. } = facts;
        let epoch = server.epoch;
        let wanted = server.owner.as_ref().is_none_or(|owner| members.is_gone(owner, now));
        match phase {
            Some(OwnershipPhase::Running { .. } | OwnershipPhase::Doubt { .. }) => {
                // Of a server of which there may be only one, the next owner counts on its end.
                if server.on_isolation() == IsolationRule::Stop {
                    commands.push(OwnershipCommand::End(name.clone()));
                    return None;
                }
                commands.push(OwnershipCommand::Retire(name.clone()));
                Some(OwnershipPhase::Retiring { until: now + DRAIN })
            }
            Some(OwnershipPhase::Retiring { until }) if now < until => Some(OwnershipPhase::Retiring { until }),
            Some(OwnershipPhase::Retiring { .. }) => {
                commands.push(OwnershipCommand::End(name.clone()));
                None
            }
            Some(OwnershipPhase::Wanting { at, epoch: of }) if wanted && of == epoch => {
                if now < at || members.is_in_doubt(now) {
                    return Some(OwnershipPhase::Wanting { at, epoch });
                }
                commands.push(OwnershipCommand::Claim { server: name.clone(), epoch });
                let released = server.owner.is_none();
                Some(OwnershipPhase::Claiming { epoch, again: now + CLAIM_AGAIN, released })
            }
            Some(OwnershipPhase::Claiming { epoch: of, again, released }) if wanted && of == epoch => {
                if now < again {
                    return Some(OwnershipPhase::Claiming { epoch, again, released });
                }
                commands.push(OwnershipCommand::Claim { server: name.clone(), epoch });
                Some(OwnershipPhase::Claiming { epoch, again: now + CLAIM_AGAIN, released })
            }
            // `Giving`, `Releasing` and `Starting` come here, too: their process was told to end, or never began.
            _ if wanted => {
                let rank = self.rank(facts)?;
                Some(OwnershipPhase::Wanting { at: now + RANK_STEP * rank, epoch })
            }
            _ => None,
        }
    }

    /// This replica's place among those that may run the server, by rendezvous hashing: a replica that comes or goes moves only its own. Where
    /// it did not start lately counts only if there is nobody else.
    fn rank(&self, facts: OwnershipFacts<'_>) -> Option<u32> {
        let OwnershipFacts { name, server, state, .. } = facts;
        if !has_labels(server, &self.labels) || !in_force(server, state, self.config) {
            return None;
        }
        let failed = self.unfit.contains_key(name);
        if failed && rivals(facts).any(|beat| !beat.unfit.contains(name)) {
            return None;
        }
        let mine = weight(name, &self.me.name);
        let alike = rivals(facts).filter(|beat| failed || !beat.unfit.contains(name));
        let before = alike.filter(|beat| weight(name, &beat.replica.name) > mine).count();
        u32::try_from(before).ok()
    }
}

/// The others that are there and may run the server, also where it did not start lately.
fn rivals<'a>(facts: OwnershipFacts<'a>) -> impl Iterator<Item = &'a ReplicaBeat> {
    let OwnershipFacts { server, state, members, .. } = facts;
    let may = move |beat: &&ReplicaBeat| {
        !beat.leaving && has_labels(server, &beat.labels) && in_force(server, state, beat.config)
    };
    members.live().filter(may)
}

fn has_labels(server: &FleetServer, labels: &[String]) -> bool {
    server.planned.placement.iter().all(|label| labels.contains(label))
}

/// A server of the file is run by those who have the file that is in force.
fn in_force(server: &FleetServer, state: &FleetState, config: BlobHash) -> bool {
    !server.from_file || state.config().is_none_or(|force| force == config)
}

fn weight(server: &FleetServerName, replica: &ReplicaName) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(server.written().as_bytes());
    // Between the two, or `a` with `bc` would weigh what `ab` with `c` does.
    hasher.update(&[0]);
    hasher.update(replica.as_str().as_bytes());
    *hasher.finalize().as_bytes()
}
