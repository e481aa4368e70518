//! How long a script may run: a fixed time, or a silence that progress ends, and a most in any case.
//!
//! Takes the time as an argument and reads none, so that it can be tested without waiting.

use std::time::Duration;

use tokio::time::Instant;

use crate::{ProjectSettings, ToolTimeouts};

/// Which bound was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassedBound {
    /// The tool took longer than its timeout, which nothing extended.
    Fixed,
    /// The time without progress.
    Idle,
    /// The most that progress can buy.
    MaxExceeded,
}

impl PassedBound {
    /// The word in results.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Idle => "idle",
            Self::MaxExceeded => "max_exceeded",
        }
    }
}

/// The bounds of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeBounds {
    /// The whole time, or the silence.
    pub(crate) allowed: Duration,
    /// Whether progress begins it anew.
    pub(crate) extends: bool,
    /// The whole time, whatever happens.
    pub(crate) most: Duration,
}

impl TimeBounds {
    /// Those of a tool. `asked`: what the caller wants instead of the tool's own time.
    pub(crate) fn new(tool: &ToolTimeouts, settings: &ProjectSettings, asked: Option<Duration>) -> Self {
        let most = tool.max.unwrap_or(settings.max_timeout);
        // The caller may ask for another time, but never for more than the most.
        let allowed = asked.or(tool.fixed).unwrap_or(settings.tool_timeout);
        let extends = tool.extends.unwrap_or(settings.progress_extends);
        // Nothing runs for ever: no time at all means the most.
        Self { allowed: if allowed.is_zero() { most } else { allowed }, extends, most }
    }
}

/// A running clock. While somebody is asked a question it stands still, but for the most.
#[derive(Clone, Debug)]
pub(crate) struct CallClock {
    bounds: TimeBounds,
    started: Instant,
    /// When the allowed time began.
    since: Instant,
    paused: Option<Instant>,
}

impl CallClock {
    pub(crate) fn new(bounds: TimeBounds, now: Instant) -> Self {
        Self { bounds, started: now, since: now, paused: None }
    }

    /// The script said how far it is.
    pub(crate) fn progress(&mut self, now: Instant) {
        if self.bounds.extends {
            self.since = now;
        }
    }

    /// Somebody is asked a question: the time until the answer is not the tool's.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused.get_or_insert(now);
    }

    /// The question is answered: the clock goes on from where it stood.
    pub(crate) fn resume(&mut self, now: Instant) {
        if let Some(paused) = self.paused.take() {
            // Progress during the pause has begun the time anew, and that part must not be counted twice.
            self.since += now.saturating_duration_since(paused.max(self.since));
        }
    }

    /// When it is worth looking again.
    pub(crate) fn next(&self) -> Instant {
        let allowed = self.paused.is_none().then(|| self.since + self.bounds.allowed);
        let most = self.has_most().then(|| self.started + self.bounds.most);
        // A fixed clock that is paused has no other bound.
        allowed.into_iter().chain(most).min().unwrap_or_else(|| self.started + self.bounds.most)
    }

    /// The bound that was passed, if one was.
    pub(crate) fn passed(&self, now: Instant) -> Option<PassedBound> {
        if self.has_most() && now >= self.started + self.bounds.most {
            return Some(PassedBound::MaxExceeded);
        }
        let over = self.paused.is_none() && now >= self.since + self.bounds.allowed;
        over.then_some(if self.bounds.extends { PassedBound::Idle } else { PassedBound::Fixed })
    }

    /// A fixed time is the most by itself, unless a question stretches it.
    fn has_most(&self) -> bool {
        self.bounds.extends || self.paused.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(extends: bool) -> (CallClock, Instant) {
        let now = Instant::now();
        let bounds = TimeBounds { allowed: seconds(10), extends, most: seconds(25) };
        (CallClock::new(bounds, now), now)
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_fixed_time_ends_in_spite_of_progress() {
        // S0.9
        let (mut clock, start) = clock(false);
        clock.progress(start + seconds(9));
        assert_eq!(clock.next(), start + seconds(10));
        assert_eq!(clock.passed(start + seconds(9)), None);
        assert_eq!(clock.passed(start + seconds(10)), Some(PassedBound::Fixed));
    }

    #[test]
    fn progress_begins_the_silence_anew_up_to_the_most() {
        // S0.9
        let (mut clock, start) = clock(true);
        clock.progress(start + seconds(9));
        assert_eq!(clock.passed(start + seconds(18)), None);
        assert_eq!(clock.passed(start + seconds(19)), Some(PassedBound::Idle));
        clock.progress(start + seconds(18));
        assert_eq!(clock.next(), start + seconds(25));
        assert_eq!(clock.passed(start + seconds(25)), Some(PassedBound::MaxExceeded));
    }

    #[test]
    fn a_question_stops_the_clock_but_not_for_ever() {
        let (mut clock, start) = clock(false);
        clock.pause(start + seconds(5));
        assert_eq!(clock.passed(start + seconds(20)), None);
        assert_eq!(clock.passed(start + seconds(25)), Some(PassedBound::MaxExceeded));
        clock.resume(start + seconds(20));
        assert_eq!(clock.passed(start + seconds(24)), None);
        assert_eq!(clock.passed(start + seconds(25)), Some(PassedBound::Fixed));
    }

    #[test]
    fn a_tool_overrides_the_settings_and_a_caller_the_tool() {
        let settings = ProjectSettings::read(&crate::GivenEnvironment::default());
        let tool = ToolTimeouts { fixed: Some(seconds(3)), ..ToolTimeouts::default() };
        assert_eq!(TimeBounds::new(&ToolTimeouts::default(), &settings, None).allowed, seconds(30));
        assert_eq!(TimeBounds::new(&tool, &settings, None).allowed, seconds(3));
        assert_eq!(TimeBounds::new(&tool, &settings, Some(seconds(7))).allowed, seconds(7));
        assert_eq!(TimeBounds::new(&tool, &settings, Some(Duration::ZERO)).allowed, seconds(600));
    }
}
