//! The words for how a client stands to what changed, and the rule that finds the one that fits.
//!
//! By connection and list: what it was told, when it last asked, and how often it used what the list names since. Nothing is decided by
//! it but what people see, and whether a hint is due.

use std::time::{Duration, Instant};

use crate::ledger::{Topic, Topics};

/// Whoever was told of a list and used what it names so often without asking for it again does not hear.
pub const DEAF_CALLS: u8 = 3;
/// Nor does whoever did not ask for so long.
pub const DEAF_AFTER: Duration = Duration::from_secs(10 * 60);
/// After so long a notice that no transport takes is trouble.
pub const UNREACHED_AFTER: Duration = Duration::from_secs(5);

/// How a client stands to what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStanding {
    /// It asked again after everything that it was told, or had to be told nothing.
    Heard,
    /// It is owed a notice, since a moment ago.
    Owed,
    /// It was told, and has not asked since; it may still.
    Waiting,
    /// It was told, and goes on as if it had not been.
    Deaf,
    /// It is owed a notice, and no transport takes it.
    Unreached,
    /// It is told on a channel, where nobody can know what was read.
    Sent,
    /// It does not ask to be told.
    NotAsking,
    /// Its revision is told of nothing.
    Silent,
    /// It can not be known which lists are its own, or it asked for none since it is counted.
    Unknown,
}

impl ClientStanding {
    /// All of them, trouble first.
    pub const ALL: [Self; 9] = [
        Self::Deaf,
        Self::Unreached,
        Self::Owed,
        Self::Waiting,
        Self::Sent,
        Self::Heard,
        Self::NotAsking,
        Self::Unknown,
        Self::Silent,
    ];

    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Owed => "owed",
            Self::Waiting => "waiting",
            Self::Deaf => "deaf",
            Self::Unreached => "unreached",
            Self::Sent => "sent",
            Self::NotAsking => "not asking",
            Self::Silent => "silent",
            Self::Unknown => "unknown",
        }
    }

    /// Of several lists the one that is said of the client.
    const fn weight(self) -> u8 {
        match self {
            Self::Unreached => 6,
            Self::Deaf => 5,
            Self::Owed => 4,
            Self::Waiting => 3,
            Self::Sent => 2,
            Self::Heard => 1,
            // Of a list that it never asked for, or is not told of, it holds nothing that could be old.
            Self::NotAsking | Self::Silent | Self::Unknown => 0,
        }
    }
}

/// What a client is owed, and since when the oldest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwedLists {
    /// The lists.
    pub topics: Topics,
    /// Since when.
    pub since: Instant,
}

/// What is known of one client, by topic; `None` where it never happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// When it was told of what it has not asked for since; or last, where it has.
    pub told: [Option<Instant>; 3],
    /// The newest commit that it was told of.
    pub commit: [Option<u64>; 3],
    /// When it last asked for the list.
    pub listed: [Option<Instant>; 3],
    /// Lists that it asked for, was told of, and has not asked for since.
    pub outdated: Topics,
    /// Lists of which it is told.
    pub follows: Topics,
    /// How many notices of changes it was given.
    pub notices: u32,
    /// Whether it is told on a channel, too.
    pub on_channel: bool,
}

impl Default for DeliveryRecord {
    /// A client of which nothing is known yet: whatever comes, it will be told.
    fn default() -> Self {
        let (told, commit, listed, outdated) = Default::default();
        Self { told, commit, listed, outdated, follows: Topics::ALL, notices: 0, on_channel: false }
    }
}

impl DeliveryRecord {
    /// Since when it has been told of each list that it did not ask for since.
    pub fn outdated(&self) -> impl Iterator<Item = (Topic, Instant)> + '_ {
        self.outdated.iter().filter_map(|topic| Some((topic, self.told[topic as usize]?)))
    }

    /// How it stands to one list. `calls`: how often it used what each list names since it was told of it.
    pub fn of_list(&self, topic: Topic, owed: Option<OwedLists>, calls: [u8; 3], now: Instant) -> ClientStanding {
        let ago = |at: Instant| now.saturating_duration_since(at);
        if !self.follows.contains(topic) {
            return ClientStanding::NotAsking;
        }
        let owed = owed.filter(|owed| owed.topics.contains(topic)).map(|owed| owed.since);
        let told = self.told[topic as usize].filter(|_| self.outdated.contains(topic));
        match (owed, told) {
            (Some(owed), _) if ago(owed) > UNREACHED_AFTER => ClientStanding::Unreached,
            // What it makes of a message on the channel is never known, whatever it does.
            (None, _) if self.on_channel => ClientStanding::Sent,
            (_, Some(told)) if calls[topic as usize] >= DEAF_CALLS || ago(told) >= DEAF_AFTER => ClientStanding::Deaf,
            (Some(_), _) => ClientStanding::Owed,
            (None, Some(_)) => ClientStanding::Waiting,
            (None, None) if self.told[topic as usize].is_some() && self.listed[topic as usize].is_none() => {
                ClientStanding::Unknown
            }
            (None, None) => ClientStanding::Heard,
        }
    }

    /// How the client stands: as to the list of which the most is to be said.
    pub fn standing(&self, owed: Option<OwedLists>, calls: [u8; 3], now: Instant) -> ClientStanding {
        if self.follows.is_empty() {
            return ClientStanding::NotAsking;
        }
        let lists = self.follows.iter().map(|topic| self.of_list(topic, owed, calls, now));
        match lists.max_by_key(|standing| standing.weight()).unwrap_or(ClientStanding::Heard) {
            // A session of an earlier process may hold what it asked for then.
            ClientStanding::Heard | ClientStanding::Unknown
                if self.notices > 0 && self.listed.iter().all(Option::is_none) =>
            {
                ClientStanding::Unknown
            }
            ClientStanding::Unknown => ClientStanding::Heard,
            standing => standing,
        }
    }
}
