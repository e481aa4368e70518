//! Which servers somebody may use: patterns of names, and the right to change the gateway.
//!
//! Two principals with equal scopes share one view of the catalogue. Who a principal is, is decided by the transports.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use crate::who::PersonFacts;

/// Who may use a server at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerAudience {
    /// Those whose patterns match its name.
    #[default]
    ByName,
    /// Everybody: it shows each caller only what that caller may see anyway.
    Everybody,
    /// Those who may change the gateway.
    Admins,
}

/// The servers that somebody may use, and whether they may change the gateway. Two with the same patterns and rights are
/// equal: they see the same.
#[derive(Clone)]
pub struct AccessScope(Arc<ScopeRights>);

struct ScopeRights {
    /// Sorted and each once, so that equal scopes compare as equal.
    patterns: Vec<String>,
    matches: fn(&str, &str) -> bool,
    all_names: bool,
    admin: bool,
    /// What rules can ask about whoever has it; nothing for the person at this machine.
    facts: PersonFacts,
    /// The class under the policy that asked last: its number, which is never 0, and the class. Kept here, so that a call finds it without a
    /// lock and without comparing anything.
    class: AtomicU64,
}

// One instance for the whole process: `PartialEq` compares pointers first.
static EVERYTHING: LazyLock<AccessScope> = LazyLock::new(|| AccessScope::new(vec![ALL.to_owned()], true, |_, _| true));

/// The pattern of every name.
const ALL: &str = "*";

impl AccessScope {
    /// The servers whose names match one of the patterns, as `matches(pattern, name)` says.
    pub fn new(mut patterns: Vec<String>, admin: bool, matches: fn(&str, &str) -> bool) -> Self {
        patterns.sort();
        patterns.dedup();
        let all_names = patterns.iter().any(|pattern| pattern == ALL);
        // An `Arc`: scopes are keys of views, and are cloned often.
        let (facts, class) = Default::default();
        Self(Arc::new(ScopeRights { patterns, matches, all_names, admin, facts, class }))
    }

    /// The same rights of somebody of whom this is known.
    #[must_use]
    pub fn of_person(&self, facts: PersonFacts) -> Self {
        let ScopeRights { patterns, matches, all_names, admin, .. } = &*self.0;
        let (patterns, matches, all_names, admin) = (patterns.clone(), *matches, *all_names, *admin);
        let class = AtomicU64::default();
        Self(Arc::new(ScopeRights { patterns, matches, all_names, admin, facts, class }))
    }

    /// What is known of whoever has it.
    pub fn facts(&self) -> &PersonFacts {
        &self.0.facts
    }

    /// Whether both may use the same servers and change as much, whoever they are.
    pub(crate) fn same_rights(&self, other: &Self) -> bool {
        // The matching function is not compared: every scope that is made from a configuration has the same one.
        Arc::ptr_eq(&self.0, &other.0) || (self.0.admin == other.0.admin && self.0.patterns == other.0.patterns)
    }

    /// The class under a policy, found out if another policy asked last.
    pub(crate) fn class_under(&self, policy: u32, find: impl FnOnce() -> u32) -> u32 {
        // Relaxed: the one word says all there is, and whoever misses it finds out the same.
        let known = self.0.class.load(Ordering::Relaxed);
        if known >> 32 == u64::from(policy) {
            return known as u32;
        }
        let class = find();
        self.0.class.store(u64::from(policy) << 32 | u64::from(class), Ordering::Relaxed);
        class
    }

    /// All servers, and every right.
    pub fn everything() -> Self {
        EVERYTHING.clone()
    }

    /// Whether nothing is kept from it, whatever servers there are.
    pub fn is_everything(&self) -> bool {
        self.0.all_names && self.0.admin
    }

    /// Whether it includes the right to change the gateway.
    pub fn is_admin(&self) -> bool {
        self.0.admin
    }

    /// Whether it includes a server of this name and audience.
    pub fn permits(&self, audience: ServerAudience, name: &str) -> bool {
        match audience {
            ServerAudience::Everybody => true,
            ServerAudience::Admins => self.0.admin,
            ServerAudience::ByName => {
                self.0.all_names || self.0.patterns.iter().any(|pattern| (self.0.matches)(pattern, name))
            }
        }
    }
}

impl PartialEq for AccessScope {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.same_rights(other) && self.0.facts == other.0.facts)
    }
}

impl Eq for AccessScope {}

impl fmt::Debug for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("servers", &self.0.patterns).field("admin", &self.0.admin).finish()
    }
}
