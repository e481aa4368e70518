//! Decisions of several replicas on one log that loses, delays and doubles what they write: of two after the same value one holds, once, and
//! whoever decided is told what became of it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use tidings_hub::fleet::decision_commits::{
    DecisionBase, DecisionCommand, DecisionCommits, DecisionFate, DecisionWish,
};
use tidings_hub::fleet::entry::{DecisionKey, DecisionKind, DecisionWriting, FleetEntry};
use tidings_hub::fleet::fold::{EntryEffect, FleetFold};
use tidings_hub::fleet::{BlobHash, ReplicaId};

use crate::random::SeededRandom;

const REPLICAS: usize = 3;
const STEPS: usize = 1500;

/// What is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// A value holds whatever came before it.
    AnyNumber,
    /// A key whose value was taken away begins at one again.
    BeginsAgain,
    /// Two that write the same at the same time are both told that they did.
    SameIsMine,
    /// Whoever decides is told when it is written.
    AnsweredEarly,
    /// After an answer that did not come, the same is written under the next number.
    NextNumber,
}

/// Somebody's wish, and what was said about it.
struct Wished {
    at: ReplicaId,
    base: DecisionBase,
    value: Option<BlobHash>,
    writings: Vec<u64>,
    fate: Option<DecisionFate>,
}

struct Replica {
    id: ReplicaId,
    fold: FleetFold,
    commits: DecisionCommits,
    /// The place of each wish among all, by its number here.
    wishes: BTreeMap<u64, usize>,
}

struct World {
    random: SeededRandom,
    defect: Defect,
    now: Instant,
    log: Vec<FleetEntry>,
    /// Written and not in the log yet.
    under_way: Vec<FleetEntry>,
    replicas: Vec<Replica>,
    wished: Vec<Wished>,
    /// Where each writing held, and what was there before.
    held: HashMap<(u64, u64), (usize, u64)>,
    incarnations: u64,
    counts: BTreeMap<&'static str, usize>,
}

fn key(subject: usize) -> DecisionKey {
    DecisionKey { kind: DecisionKind::Hook, subject: subject.to_string() }
}

fn parts(entry: &FleetEntry) -> (&DecisionKey, u64, &DecisionWriting) {
    match entry {
        FleetEntry::Decide { key, n, writing: Some(writing), .. } | FleetEntry::Withdraw { key, n, writing } => {
            (key, *n, writing)
        }
        entry => panic!("not a decision: {entry:?}"),
    }
}

impl World {
    fn new(seed: u64, defect: Defect) -> Self {
        let mut world = Self {
            random: SeededRandom::new(seed),
            defect,
            now: Instant::now(),
            log: Vec::new(),
            under_way: Vec::new(),
            replicas: Vec::new(),
            wished: Vec::new(),
            held: HashMap::new(),
            incarnations: 0,
            counts: BTreeMap::new(),
        };
        for _ in 0..REPLICAS {
            let replica = world.process();
            world.replicas.push(replica);
        }
        world
    }

    fn process(&mut self) -> Replica {
        self.incarnations += 1;
        let id = ReplicaId { name: "r".into(), incarnation: self.incarnations };
        let commits = DecisionCommits::new(id.clone());
        Replica { id, fold: FleetFold::default(), commits, wishes: BTreeMap::new() }
    }

    fn live(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            let replica = self.random.below(REPLICAS);
            match self.random.below(100) {
                0..12 => self.wish(replica),
                12..40 => self.arrive(),
                40..85 => self.read(replica)?,
                85..97 => self.tick(replica, 300),
                97 => self.now += Duration::from_secs(6),
                // A process that ends tells nobody anything.
                _ => self.replicas[replica] = self.process(),
            }
        }
        // All that was written arrives, is read, and is answered.
        for _ in 0..20 {
            while !self.under_way.is_empty() {
                self.arrive();
            }
            for replica in 0..REPLICAS {
                while self.replicas[replica].fold.next_position() <= self.log.len() as u64 {
                    self.read(replica)?;
                }
                self.tick(replica, 1100);
            }
        }
        self.at_rest()
    }

    fn wish(&mut self, replica: usize) {
        let subject = self.random.below(3);
        let known = self.replicas[replica].fold.state().decision(&key(subject)).map_or(0, |known| known.n);
        let base = if self.random.below(2) == 0 { DecisionBase::Any } else { DecisionBase::Exactly(known) };
        // Few values: two may decide the same.
        let value = (self.random.below(4) > 0).then(|| BlobHash::of(&[u8::try_from(self.random.below(2)).unwrap()]));
        let wish = DecisionWish { key: key(subject), base, value };
        let number = self.replicas[replica].commits.wish(wish, self.now);
        let at = self.replicas[replica].id.clone();
        self.replicas[replica].wishes.insert(number, self.wished.len());
        self.wished.push(Wished { at, base, value, writings: Vec::new(), fate: None });
        self.advance(replica);
    }

    fn advance(&mut self, replica: usize) {
        let writes = self.random.below(10) > 0;
        let known = &mut self.replicas[replica];
        let commands = known.commits.advance(known.fold.state(), self.now, writes);
        commands.into_iter().for_each(|command| self.carry_out(replica, command));
    }

    fn carry_out(&mut self, replica: usize, command: DecisionCommand) {
        match command {
            DecisionCommand::Write(number, mut entry) => {
                let wished = &mut self.wished[self.replicas[replica].wishes[&number]];
                let writing = parts(&entry).2.number;
                let again = wished.writings.contains(&writing);
                if !again {
                    wished.writings.push(writing);
                }
                if self.defect == Defect::AnsweredEarly {
                    wished.fate = Some(DecisionFate::Applied(0));
                }
                if let (Defect::NextNumber, true, FleetEntry::Decide { n, .. }) = (self.defect, again, &mut entry) {
                    *n += 1;
                }
                self.under_way.push(entry);
            }
            DecisionCommand::Done(number, fate) => {
                let place = self.replicas[replica].wishes.remove(&number).unwrap();
                self.wished[place].fate = Some(fate);
                let what = match fate {
                    DecisionFate::Applied(_) => "applied",
                    DecisionFate::Overtaken => "overtaken",
                    DecisionFate::Unwritten => "unwritten",
                    DecisionFate::Unknown => "unknown",
                };
                *self.counts.entry(what).or_default() += 1;
            }
        }
    }

    /// Something that was written arrives: in any order, late, twice or never.
    fn arrive(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = self.random.below(self.under_way.len());
        match self.random.below(20) {
            0 => drop(self.under_way.swap_remove(place)),
            1..4 => self.log.push(self.under_way[place].clone()),
            _ => {
                let entry = self.under_way.swap_remove(place);
                self.log.push(entry);
            }
        }
    }

    fn read(&mut self, replica: usize) -> Result<(), String> {
        let known = &mut self.replicas[replica];
        let position = known.fold.next_position();
        let place = usize::try_from(position).unwrap() - 1;
        let Some(entry) = self.log.get(place).cloned() else { return Ok(()) };
        let (key, n, writing) = parts(&entry);
        let state = known.fold.state();
        let before = state.decision(key).map_or(0, |known| known.n);
        let mut judged = entry.clone();
        if let FleetEntry::Decide { n, .. } = &mut judged {
            let begins_again = self.defect == Defect::BeginsAgain && before == 0 && *n == 1;
            if self.defect == Defect::AnyNumber || begins_again {
                *n = state.next_decision(key);
            }
        }
        let effect = known.fold.apply(position, &judged, BlobHash::of(&position.to_le_bytes()));
        let held = matches!(effect, EntryEffect::Decided(_));
        if held {
            let first = *self.held.entry((writing.by.incarnation, writing.number)).or_insert((place, before));
            if first.0 != place {
                return Err(format!("writing {writing:?} of {key:?}, {n}, held at {} and at {place}", first.0));
            }
        }
        let mut read = entry.clone();
        if let (Defect::SameIsMine, FleetEntry::Decide { writing: Some(writing), .. }) = (self.defect, &mut read) {
            let mine = |wished: &&Wished| wished.at == known.id && wished.fate.is_none() && wished.value.is_some();
            if let Some(number) = self.wished.iter().find(mine).and_then(|wished| wished.writings.last()) {
                *writing = DecisionWriting { by: known.id.clone(), number: *number };
            }
        }
        if let Some(command) = known.commits.applied(&read, held) {
            self.carry_out(replica, command);
        }
        self.advance(replica);
        Ok(())
    }

    fn tick(&mut self, replica: usize, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.advance(replica);
    }

    fn at_rest(&self) -> Result<(), String> {
        for wished in &self.wished {
            let writings = wished.writings.iter();
            let held: Vec<_> = writings.filter_map(|number| self.held.get(&(wished.at.incarnation, *number))).collect();
            let is_true = match wished.fate {
                // There was nothing to take away.
                Some(DecisionFate::Applied(0)) if wished.value.is_none() => held.is_empty(),
                Some(DecisionFate::Applied(_)) => held.len() == 1,
                Some(DecisionFate::Overtaken | DecisionFate::Unwritten) => held.is_empty(),
                Some(DecisionFate::Unknown) | None => held.len() <= 1,
            };
            if !is_true {
                return Err(format!("{:?} held at {held:?} and was answered with {:?}", wished.value, wished.fate));
            }
            if let (DecisionBase::Exactly(base), Some((place, before))) = (wished.base, held.first())
                && base != *before
            {
                return Err(format!("a value after {base} held at {place} after {before}"));
            }
        }
        let states: Vec<_> = self.replicas.iter().map(|replica| replica.fold.state()).collect();
        if states.iter().any(|state| *state != states[0]) {
            return Err("replicas differ".to_owned());
        }
        match self.replicas.iter().find(|replica| replica.commits.under_way() > 0) {
            Some(replica) => Err(format!("{:?} did not answer", replica.id)),
            None => Ok(()),
        }
    }
}

fn live(seed: u64, defect: Defect) -> Result<BTreeMap<&'static str, usize>, String> {
    let mut world = World::new(seed, defect);
    world.live().map(|()| world.counts).map_err(|fault| format!("seed {seed}: {fault}"))
}

// cluster: decisions
#[test]
fn a_decision_holds_once_or_not_at_all_and_its_answer_says_which() {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 1..200 {
        for (what, count) in live(seed, Defect::None).unwrap() {
            *counts.entry(what).or_default() += count;
        }
    }
    for what in ["applied", "overtaken", "unwritten", "unknown"] {
        assert!(counts.get(what).is_some_and(|count| *count > 20), "this shows little: {counts:?}");
    }
}

// cluster: decisions
#[test]
fn every_defect_of_decisions_is_found() {
    let defects =
        [Defect::AnyNumber, Defect::BeginsAgain, Defect::SameIsMine, Defect::AnsweredEarly, Defect::NextNumber];
    for defect in defects {
        let found = (1..200).find_map(|seed| live(seed, defect).err());
        println!("{defect:?}: {}", found.unwrap_or_else(|| panic!("{defect:?} was not found")));
    }
}
