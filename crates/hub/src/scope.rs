//! Which servers somebody may use: patterns of names, and the right to change the gateway.
//!
//! Two principals with equal scopes share one view of the catalogue. Who a principal is, is decided by the transports. Somebody who
//! asks for one server alone has a scope of its own for that: it is the part of their rights that is about this server, and it is seen
//! as if there were no other.

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
    /// The only server that is looked at, and the rights of which this is a part.
    alone: Option<ServerAlone>,
    /// The class under the policy that asked last: its number, which is never 0, and the class. Kept here, so that a call finds it without a
    /// lock and without comparing anything.
    class: AtomicU64,
}

struct ServerAlone {
    server: Arc<str>,
    base: AccessScope,
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
        let (facts, alone, class) = Default::default();
        Self(Arc::new(ScopeRights { patterns, matches, all_names, admin, facts, alone, class }))
    }

    /// The same rights of somebody of whom this is known.
    #[must_use]
    pub fn of_person(&self, facts: PersonFacts) -> Self {
        let ScopeRights { patterns, matches, all_names, admin, .. } = &*self.0;
        let (patterns, matches, all_names, admin) = (patterns.clone(), *matches, *all_names, *admin);
        let (alone, class) = Default::default();
        Self(Arc::new(ScopeRights { patterns, matches, all_names, admin, facts, alone, class }))
    }

    /// The part of these rights that is about one server, which is seen as if it were the only one.
    #[must_use]
    pub fn alone_with(&self, server: &str) -> Self {
        // Not of `self`: who is alone with one server and asks for another is alone with that one.
        let base = self.base();
        let ScopeRights { matches, admin, facts, .. } = &*base.0;
        let (matches, admin, facts) = (*matches, *admin, facts.clone());
        let alone = Some(ServerAlone { server: server.into(), base: base.clone() });
        // No patterns of its own: `permits` asks the rights that this is a part of.
        let (patterns, all_names, class) = Default::default();
        Self(Arc::new(ScopeRights { patterns, matches, all_names, admin, facts, alone, class }))
    }

    /// The server that is seen as if it were the only one.
    #[inline]
    pub fn alone(&self) -> Option<&str> {
        self.0.alone.as_ref().map(|alone| &*alone.server)
    }

    /// The rights without regard to where somebody asks: for one server alone they are the same as for all.
    pub fn base(&self) -> &Self {
        self.0.alone.as_ref().map_or(self, |alone| &alone.base)
    }

    /// What is known of whoever has it.
    pub fn facts(&self) -> &PersonFacts {
        &self.0.facts
    }

    /// Whether both may use the same servers and change as much, whoever they are.
    pub fn same_rights(&self, other: &Self) -> bool {
        // The matching function is not compared: every scope that is made from a configuration has the same one.
        let same_base = || {
            let (one, other) = (self.base(), other.base());
            Arc::ptr_eq(&one.0, &other.0) || (one.0.admin == other.0.admin && one.0.patterns == other.0.patterns)
        };
        Arc::ptr_eq(&self.0, &other.0) || (self.alone() == other.alone() && same_base())
    }

    /// Whether another token of the same person differs from this one only by having more scopes.
    pub fn is_widened_by(&self, other: &Self) -> bool {
        let (mine, theirs) = (&self.0.facts, &other.0.facts);
        self.same_rights(other)
            && (&mine.token, &mine.groups, &mine.claims) == (&theirs.token, &theirs.groups, &theirs.claims)
            && mine.scopes.is_subset(&theirs.scopes)
    }

    /// The class under a policy, found out if another policy asked last.
    pub(crate) fn class_under(&self, policy: u32, find: impl FnOnce() -> u32) -> u32 {
        // Relaxed: the one word says all there is, and whoever misses it finds out the same.
        let known = self.0.class.load(Ordering::Relaxed);
        if known >> 32 == u64::from(policy) {
            // Cut on purpose: the upper half is the number of the policy.
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
        if let Some(alone) = &self.0.alone {
            // What is built in is no part of what one server is.
            return audience == ServerAudience::ByName && *alone.server == *name && alone.base.permits(audience, name);
        }
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
        let base = self.base();
        let mut shown = f.debug_struct("Scope");
        shown.field("servers", &base.0.patterns).field("admin", &base.0.admin);
        if let Some(server) = self.alone() {
            shown.field("alone", &server);
        }
        shown.finish()
    }
}
