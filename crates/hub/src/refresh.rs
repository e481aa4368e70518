//! When one server's lists are looked at again, who waits for that, and when its changes may be announced.
//!
//! Two rules meet here. *Read your writes*: a list is never older than a signal that arrived before it was asked for, so
//! whoever asks for a list that is marked makes the look happen at once and waits for it. *One notice for a burst*: signals
//! are gathered for a quiet window before anybody is told. So a look that somebody waits for may come inside the window;
//! what it finds can be read at once, and its notices are held until the window is over.
//!
//! A look begins when the window is over, or when somebody asks, and one at a time. A signal during a look is for the next
//! one. This machine decides; whoever drives it asks [`ListRefresh::next`] what to do, carries it out, and reports back. It
//! reads no clock. When lists are asked for without a signal is the [`RefreshSchedule`]'s business.

mod marks;
mod schedule;

use std::time::{Duration, Instant};

use tidings_proto::ListKind;

pub use marks::{ListMark, ListMarks, RefreshReason};
pub use schedule::{DueRefresh, FailedList, Jitter, RefreshSchedule};

/// How often at most a name that nobody knows is a reason to look: whoever guesses names must not make a server list for each.
const MISSED: Duration = Duration::from_secs(1);

/// How long signals are gathered before a change is announced.
#[derive(Clone, Copy, Debug)]
pub struct RefreshPace {
    /// How long there has to be no signal.
    pub quiet: Duration,
    /// How long an announcement may be put off; also how long whoever asks for a list waits for a look.
    pub max_wait: Duration,
}

/// The looks at one server's lists.
#[derive(Debug)]
pub struct ListRefresh {
    pace: RefreshPace,
    marks: ListMarks,
    /// How many looks have begun.
    begun: u64,
    running: Option<RunningLook>,
    window: Option<SignalWindow>,
    /// Somebody waits for the next look.
    urgent: bool,
    /// A look inside the window was committed: its notices wait for the end of the window.
    holding: bool,
    /// How many calls were answered when each list was last looked at.
    calls_seen: [u64; 4],
    /// When a name that nobody knows was last a reason to look.
    missed_at: Option<Instant>,
}

/// The look that is under way.
#[derive(Debug)]
struct RunningLook {
    number: u64,
    kinds: [bool; 4],
    began: Instant,
}

/// Signals that are gathered.
#[derive(Clone, Copy, Debug)]
struct SignalWindow {
    first: Instant,
    last: Instant,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshStep {
    /// Call [`ListRefresh::begin`], list what it names, and commit that.
    Look,
    /// The window is over and nothing is marked: what was held is announced now.
    Release,
    /// Nothing until then, or until something happens.
    Sleep(Option<Instant>),
}

/// One round of listing a server: whoever drives the machine lists what it says and reports back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunLook {
    /// Its number: looks of one server are counted from 1, so that whoever waits for one can name it.
    pub number: u64,
    /// What is to be listed.
    pub marks: ListMarks,
    /// It comes inside the window: what it finds is committed at once, and announced when the window is over.
    pub held: bool,
}

/// What whoever asks for a list has to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListWait {
    /// The look that will know.
    pub look: u64,
    /// How long to wait at most. Then what is known is the answer.
    pub until: Instant,
}

impl ListRefresh {
    /// A server whose lists nobody has asked for yet.
    pub fn new(pace: RefreshPace) -> Self {
        Self {
            pace,
            marks: ListMarks::default(),
            begun: 0,
            running: None,
            window: None,
            urgent: false,
            holding: false,
            calls_seen: [0; 4],
            missed_at: None,
        }
    }

    /// The server says that lists have changed. Tells whether it is the first such word since they were last looked at.
    pub fn signal(&mut self, kinds: &[ListKind], now: Instant) -> bool {
        self.gather(now);
        self.marks.signal(kinds, now)
    }

    /// Nobody heard what happened to these lists. It counts like a signal.
    pub fn unheard(&mut self, kinds: &[ListKind], now: Instant) {
        self.gather(now);
        kinds.iter().for_each(|kind| self.marks.mark(*kind, RefreshReason::Reconnect));
    }

    fn gather(&mut self, now: Instant) {
        self.window.get_or_insert(SignalWindow { first: now, last: now }).last = now;
    }

    /// It is time to ask for these lists; inside a window they wait for its end.
    pub fn mark(&mut self, kinds: &[ListKind], reason: RefreshReason) {
        kinds.iter().for_each(|kind| self.marks.mark(*kind, reason));
    }

    /// These lists are needed now. Tells the number of the look that will know them.
    pub fn require(&mut self, kinds: &[ListKind], reason: RefreshReason) -> u64 {
        self.mark(kinds, reason);
        self.urgent = true;
        // The look that runs now, if there is one, may have read the list before it was needed.
        self.begun + 1
    }

    /// A client asks for a list. `answered` counts the calls that the server has answered, where it is not certain that it
    /// would have announced before the answer what a call changed. `None`: the list is as new as every signal.
    pub fn ask(&mut self, kind: ListKind, answered: Option<u64>, now: Instant) -> Option<ListWait> {
        // The server may announce on another connection than the one that carried the answer, so an answered call makes
        // the list uncertain (ADR 20).
        if answered.is_some_and(|answered| answered != self.calls_seen[kind as usize]) {
            self.marks.mark(kind, RefreshReason::Call);
        }
        let running = self.running.as_ref();
        let Some(mark) = self.marks.get(kind) else {
            // Nothing was said since that look began, so what it finds is new enough.
            let under_way = running.filter(|look| look.kinds[kind as usize])?;
            return Some(ListWait { look: under_way.number, until: now + self.pace.max_wait });
        };
        self.urgent = true;
        // A server that answers calls and never lists would cost every list the whole wait. Where there is no more than a
        // suspicion, one that hangs is waited for once.
        let from = match mark.reason {
            RefreshReason::Call => running.map_or(now, |look| look.began),
            _ => now,
        };
        Some(ListWait { look: self.begun + 1, until: from + self.pace.max_wait })
    }

    /// A client names what would be this server's, and is in none of its lists: it may have changed without a word. `None`: it was
    /// looked at for such a name a moment ago.
    pub fn missed(&mut self, kind: ListKind, now: Instant) -> Option<ListWait> {
        if self.missed_at.is_none_or(|at| now.saturating_duration_since(at) >= MISSED) {
            self.missed_at = Some(now);
            self.marks.mark(kind, RefreshReason::Call);
        }
        // Also when it was not marked: somebody else may have marked it a moment ago, and that look is worth waiting
        // for.
        self.ask(kind, None, now)
    }

    /// What is to be done now.
    pub fn next(&self, now: Instant) -> RefreshStep {
        let end = self.window_end();
        let over = end.is_none_or(|end| now >= end);
        match self.marks.is_empty() {
            // Somebody waits: the window no longer holds up the look, only the notices.
            false if self.urgent || over => RefreshStep::Look,
            true if over && self.holding => RefreshStep::Release,
            true if !self.holding => RefreshStep::Sleep(None),
            // Marked and not urgent, or holding: both go on at the end of the window.
            _ => RefreshStep::Sleep(end),
        }
    }

    fn window_end(&self) -> Option<Instant> {
        self.window.map(|window| (window.last + self.pace.quiet).min(window.first + self.pace.max_wait))
    }

    /// Begins a look at what is marked.
    pub fn begin(&mut self, answered: u64, now: Instant) -> BegunLook {
        let held = self.window_end().is_some_and(|end| now < end);
        if !held {
            self.window = None;
        }
        // What an earlier look held is not lost: after a look outside the window the driver releases everything.
        self.holding = held;
        self.urgent = false;
        self.begun += 1;
        // Signals that come from here on mark the list again, and so cause one more look.
        let marks = std::mem::take(&mut self.marks);
        for (kind, _) in marks.iter() {
            self.calls_seen[kind as usize] = answered;
        }
        let kinds = ListKind::ALL.map(|kind| marks.get(kind).is_some());
        self.running = Some(RunningLook { number: self.begun, kinds, began: now });
        BegunLook { number: self.begun, marks, held }
    }

    /// Begins the first look over a new link, at everything: whatever was gathered before is part of it.
    pub fn begin_anew(&mut self, answered: u64, now: Instant) -> BegunLook {
        self.mark(&ListKind::ALL, RefreshReason::Reconnect);
        // Nobody can be told of a burst that ended with the old link.
        self.window = None;
        self.begin(answered, now)
    }

    /// A look is over, and what it found can be read.
    pub fn looked(&mut self) {
        self.running = None;
    }

    /// What was held is announced. Also when the link is lost: there will be no end of the window.
    pub fn released(&mut self) {
        self.holding = false;
        if self.marks.is_empty() {
            self.window = None;
        }
    }
}
