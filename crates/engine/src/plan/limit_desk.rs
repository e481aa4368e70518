//! The limits of `[limits]`, and what time it is for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use tidings_hub::limits::{LimitMoment, LimitRules, OverLimit};
use tidings_sync::Lock;

const DAY: u64 = 24 * 60 * 60;

/// Where limits are kept. They may be others later; that there are some at all is decided at the start.
pub struct LimitDesk {
    rules: ArcSwap<LimitRules>,
    begun: Instant,
    /// How often each limit was over.
    refused: Lock<BTreeMap<String, u64>>,
}

impl LimitDesk {
    /// A desk with these limits.
    pub fn new(rules: LimitRules) -> Arc<Self> {
        Arc::new(Self { rules: ArcSwap::from_pointee(rules), begun: Instant::now(), refused: Lock::default() })
    }

    /// Other limits hold from now on. What is counted for one of the same name stays.
    pub fn change(&self, rules: LimitRules) {
        if **self.rules.load() != rules {
            self.rules.store(Arc::new(rules));
        }
    }

    /// How often each limit was over, by name.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        self.refused.lock().clone()
    }

    pub(crate) fn rules(&self) -> Arc<LimitRules> {
        self.rules.load_full()
    }

    pub(crate) fn now(&self) -> LimitMoment {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let left = Duration::from_secs(DAY).saturating_sub(Duration::from_secs(since.as_secs() % DAY));
        LimitMoment { elapsed: self.begun.elapsed(), day: (since.as_secs() / DAY, left) }
    }

    pub(crate) fn note(&self, over: &OverLimit) {
        let mut refused = self.refused.lock();
        match refused.get_mut(&over.rule) {
            Some(count) => *count += 1,
            None => drop(refused.insert(over.rule.clone(), 1)),
        }
    }
}
