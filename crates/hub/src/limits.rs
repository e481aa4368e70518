//! How often, how many at a time and how many in a day one person may use which items: the rules of `[limits]`, without I/O.
//!
//! A limit is counted for each person by itself. Where several limits are about one use, all of them have to let it through, and one that is
//! refused counts for none. How many requests, listens and sessions a person may have at all is no concern of this room (`[quotas]`).

use std::sync::Arc;
use std::time::Duration;

use crate::policy::ItemPattern;
use crate::who::{PersonFacts, WhoPattern};

/// So many in a time, which may come all at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRate {
    /// How many; at least one.
    pub count: u32,
    /// In which time.
    pub per: Duration,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// What people call it.
    pub name: String,
    /// Whom it is about.
    pub who: Vec<WhoPattern>,
    /// Whom it is not about all the same.
    pub except: Vec<WhoPattern>,
    /// What it is about.
    pub items: Vec<ItemPattern>,
    /// How often.
    pub rate: Option<LimitRate>,
    /// How many at a time.
    pub concurrent: Option<u32>,
    /// How many in a day (UTC).
    pub per_day: Option<u64>,
}

/// All limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules(pub Vec<LimitRule>);

/// A moment, as limits need it.
#[derive(Clone, Copy, Debug)]
pub struct LimitMoment {
    /// Since some moment that stays the same, and never goes back.
    pub elapsed: Duration,
    /// The day, counted from any day on, and how much of it is left.
    pub day: (u64, Duration),
}

/// A use that a limit does not let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("over the limit \"{rule}\" ({what}); try again in {}", wait(.retry_after))]
pub struct OverLimit {
    /// The name of the limit.
    pub rule: String,
    /// What of it is used up.
    pub what: String,
    /// When to try again. A place that somebody has to leave first is tried for after a second.
    pub retry_after: Duration,
}

fn wait(time: &Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        // Upwards: who comes too early is refused again.
        millis => format!("{} s", millis.div_ceil(1_000)),
    }
}

/// What one person has used up.
#[derive(Debug, Default)]
pub struct LimitBook {
    rules: Arc<LimitRules>,
    counts: Vec<RuleCount>,
}

/// What of one rule is used up. The places are those of the rules.
#[derive(Clone, Debug, Default)]
struct RuleCount {
    /// Whether the rule is about this person.
    fits: bool,
    /// When the next use would come if they came evenly (GCRA).
    due: Duration,
    day: u64,
    used_today: u64,
    running: u32,
}

/// The places that a use takes, to be given back: the rules with a limit of how many at a time, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenPlaces(Vec<String>);

impl TakenPlaces {
    /// Whether there is none to give back.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl LimitBook {
    /// One more use of an item. What it takes has to be given back when it is over.
    pub fn enter(
        &mut self,
        rules: &Arc<LimitRules>,
        person: &PersonFacts,
        (server, name): (&str, &str),
        now: LimitMoment,
    ) -> Result<TakenPlaces, OverLimit> {
        self.follow(rules, person);
        let rules = Arc::clone(&self.rules);
        let about = || rules.0.iter().enumerate().filter(|(_, rule)| rule.covers(server, name));
        // Asked first and counted then: what one refuses must not count for the others.
        for (place, rule) in about().filter(|(place, _)| self.counts[*place].fits) {
            self.counts[place].ask(rule, now)?;
        }
        let mut taken = TakenPlaces::default();
        for (place, rule) in about() {
            let count = &mut self.counts[place];
            if count.fits && count.take(rule, now) {
                taken.0.push(rule.name.clone());
            }
        }
        Ok(taken)
    }

    /// A use is over.
    pub fn leave(&mut self, taken: &TakenPlaces) {
        for name in &taken.0 {
            // A rule that is gone counts no more.
            if let Some(place) = self.rules.0.iter().position(|rule| rule.name == *name) {
                // A rule that went and came back meanwhile counts from nothing.
                self.counts[place].running = self.counts[place].running.saturating_sub(1);
            }
        }
    }

    /// The rules may be others: what was counted for one of the same name stays.
    fn follow(&mut self, rules: &Arc<LimitRules>, person: &PersonFacts) {
        if Arc::ptr_eq(&self.rules, rules) && self.counts.len() == rules.0.len() {
            return;
        }
        let known = |name: &str| self.rules.0.iter().position(|rule| rule.name == name);
        let counts = rules.0.iter().map(|rule| {
            let count = known(&rule.name).and_then(|place| self.counts.get(place)).cloned().unwrap_or_default();
            RuleCount { fits: rule.is_about(person), ..count }
        });
        self.counts = counts.collect();
        self.rules = Arc::clone(rules);
    }
}

impl LimitRule {
    fn is_about(&self, person: &PersonFacts) -> bool {
        self.who.iter().any(|who| who.fits(person)) && !self.except.iter().any(|who| who.fits(person))
    }

    fn covers(&self, server: &str, name: &str) -> bool {
        self.items.iter().any(|items| items.fits(server, name))
    }
}

impl LimitRate {
    /// The time between two uses that come evenly.
    fn step(&self) -> Duration {
        self.per / self.count.max(1)
    }
}

impl RuleCount {
    fn ask(&self, rule: &LimitRule, now: LimitMoment) -> Result<(), OverLimit> {
        let over = |what: String, retry_after| Err(OverLimit { rule: rule.name.clone(), what, retry_after });
        if let Some(most) = rule.concurrent.filter(|most| self.running >= *most) {
            return over(format!("{most} at a time"), Duration::from_secs(1));
        }
        if let Some(most) = rule.per_day.filter(|most| self.day == now.day.0 && self.used_today >= *most) {
            return over(format!("{most} a day"), now.day.1);
        }
        if let Some(rate) = rule.rate {
            // As many as may come in the whole time may come at once.
            let early = (self.due + rate.step()).saturating_sub(now.elapsed + rate.per);
            if !early.is_zero() {
                return over(format!("{} in {}", rate.count, wait(&rate.per)), early);
            }
        }
        Ok(())
    }

    /// Says whether a place is taken that has to be given back.
    fn take(&mut self, rule: &LimitRule, now: LimitMoment) -> bool {
        if let Some(rate) = rule.rate {
            self.due = self.due.max(now.elapsed) + rate.step();
        }
        if rule.per_day.is_some() {
            if self.day != now.day.0 {
                (self.day, self.used_today) = (now.day.0, 0);
            }
            self.used_today += 1;
        }
        if rule.concurrent.is_some() {
            self.running += 1;
        }
        rule.concurrent.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: Vec<LimitRule>) -> Arc<LimitRules> {
        Arc::new(LimitRules(rules))
    }

    fn rule(name: &str, items: &str) -> LimitRule {
        LimitRule {
            name: name.to_owned(),
            who: vec![WhoPattern::Everybody],
            except: Vec::new(),
            items: vec![items.parse().expect("items")],
            rate: None,
            concurrent: None,
            per_day: None,
        }
    }

    fn at(millis: u64) -> LimitMoment {
        let elapsed = Duration::from_millis(millis);
        LimitMoment { elapsed, day: (millis / 86_400_000, Duration::from_millis(86_400_000 - millis % 86_400_000)) }
    }

    // identity 4
    #[test]
    fn a_rate_lets_a_burst_through_and_then_one_at_a_time() {
        let rate = Some(LimitRate { count: 10, per: Duration::from_secs(1) });
        let rules = rules(vec![LimitRule { rate, ..rule("ten", "crm/*") }]);
        let (mut book, person) = (LimitBook::default(), PersonFacts::default());
        let mut enter = |item, millis| book.enter(&rules, &person, item, at(millis)).map(drop);
        assert!((0..10).all(|_| enter(("crm", "x"), 5_000).is_ok()));
        let over = enter(("crm", "x"), 5_000).expect_err("ten is all");
        assert_eq!(over.retry_after, Duration::from_millis(100));
        assert_eq!(over.to_string(), "over the limit \"ten\" (10 in 1 s); try again in 100 ms");
        assert!(enter(("other", "x"), 5_000).is_ok(), "the limit is not about it");
        assert!(enter(("crm", "x"), 5_099).is_err() && enter(("crm", "x"), 5_100).is_ok());
        assert!(enter(("crm", "x"), 5_100).is_err());
        assert!((0..10).all(|_| enter(("crm", "x"), 9_000).is_ok()), "after a pause all at once");
        assert!(enter(("crm", "x"), 9_000).is_err());
    }

    // identity 4
    #[test]
    fn a_day_has_so_many_and_the_next_day_as_many_again() {
        let rules = rules(vec![LimitRule { per_day: Some(2), ..rule("day", "*") }]);
        let (mut book, person) = (LimitBook::default(), PersonFacts::default());
        let mut enter = |millis| book.enter(&rules, &person, ("a", "b"), at(millis)).map(drop);
        assert!(enter(1).is_ok() && enter(2).is_ok());
        assert_eq!(enter(86_399_000).expect_err("two is all").retry_after, Duration::from_secs(1));
        assert!(enter(86_400_000).is_ok() && enter(86_400_001).is_ok() && enter(86_400_002).is_err());
    }

    // identity 4
    #[test]
    fn places_are_given_back_and_a_refusal_counts_for_nothing() {
        let one = LimitRule { concurrent: Some(1), ..rule("one", "crm/slow") };
        let day = LimitRule { per_day: Some(2), ..rule("day", "*") };
        let rules = rules(vec![one.clone(), day]);
        let (mut book, person) = (LimitBook::default(), PersonFacts::default());
        let taken = book.enter(&rules, &person, ("crm", "slow"), at(1)).expect("room");
        assert!(book.enter(&rules, &person, ("crm", "slow"), at(1)).is_err(), "one at a time");
        // Other rules: what is running still counts.
        let others = Arc::new(LimitRules(vec![rule("new", "*"), one, rules.0[1].clone()]));
        assert!(book.enter(&others, &person, ("crm", "slow"), at(2)).is_err());
        book.leave(&taken);
        assert!(
            book.enter(&others, &person, ("crm", "slow"), at(2)).is_ok(),
            "the second of the day: refusals do not count"
        );
        assert_eq!(book.enter(&others, &person, ("a", "b"), at(2)).expect_err("two is all").rule, "day");
    }

    // identity 4
    #[test]
    fn a_limit_is_about_those_it_names() {
        let rule = LimitRule {
            who: vec![WhoPattern::Group("support".to_owned())],
            except: vec![WhoPattern::Token("boss".to_owned())],
            per_day: Some(0),
            ..rule("none", "*")
        };
        let rules = rules(vec![rule]);
        let person = |token: &str, group: &str| PersonFacts {
            token: Some(token.to_owned()),
            groups: [group.to_owned()].into(),
            ..PersonFacts::default()
        };
        let may = |person: PersonFacts| LimitBook::default().enter(&rules, &person, ("a", "b"), at(1)).is_ok();
        assert!(!may(person("ada", "support")) && may(person("boss", "support")) && may(person("dan", "dev")));
    }
}
