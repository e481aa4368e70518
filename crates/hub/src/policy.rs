//! Who may see, use and follow which item of which server: the rules of `[policy]`, without I/O.
//!
//! A denial beats a permission, the order of rules means nothing, and the default decides what no rule names. Rules name people by
//! what is known of them ([`crate::who`]) and items as their servers spell them. People whom the same rules are about, and who may
//! use the same servers, are one *class*: they see the same, so a view is made once for each class and not for each person.
//!
//! Not here: which items a server has, and how a view of them is made (`catalogue/screen.rs`).

mod explain;
mod glob;
mod pattern;
mod rule;
mod tried;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tidings_proto::ListKind;
use tidings_sync::Lock;

pub use explain::{Decider, Verdict};
pub use pattern::{BadItemPattern, ItemPattern};
pub use rule::{HintCondition, PolicyRule, Rights, RuleEffect, ToolHints};
pub use tried::TriedRule;

use crate::scope::AccessScope;
use crate::who::PersonFacts;

/// Whether the rules hold, or are only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyMode {
    /// What is denied is not there.
    #[default]
    Enforce,
    /// Nothing is withheld; what would be is counted and recorded.
    Report,
}

/// The rules, as somebody wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRules {
    /// What holds for what no rule names.
    pub default: RuleEffect,
    /// Whether they hold.
    pub mode: PolicyMode,
    /// In any order.
    pub rules: Vec<PolicyRule>,
}

/// What of an item rules can ask for.
#[derive(Clone, Copy, Debug)]
pub struct ItemFacts<'a> {
    /// The name of its server.
    pub server: &'a str,
    /// The list it stands in, or would.
    pub kind: ListKind,
    /// Its name or URI, as the server spells it.
    pub name: &'a str,
    /// What the server says a tool does; `None` where nobody knows, because no list has it.
    pub hints: Option<ToolHints>,
}

/// How much of a server somebody may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAccess {
    /// No item can be permitted: it is not there.
    Nothing,
    /// It depends on the item.
    Some,
    /// Whatever it has, also what no list names.
    Everything,
}

/// The rules that are about somebody, by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FittingRules {
    about: Box<[u64]>,
    /// Those of them that ask for a scope which this person's token lacks; empty where no rule asks for one.
    lacking: Box<[u64]>,
}

/// A rule that is about somebody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FittingRule<'p> {
    pub(crate) rule: &'p PolicyRule,
    /// It asks for a scope that their token lacks.
    pub(crate) lacks_scope: bool,
}

/// Rules in force. Never changes; another reading of the configuration makes another one.
#[derive(Debug)]
pub struct AccessPolicy {
    /// Tells it apart from every other policy of the process: what is kept of one must not be taken for what another says.
    number: u32,
    rules: PolicyRules,
    /// Whether some rule asks what a tool says it does.
    asks_hints: bool,
    /// Whether some rule asks for a scope.
    asks_scopes: bool,
    /// How often each rule, and last the default, would have kept something, where they are only tried.
    kept: Box<[AtomicU64]>,
    /// The classes that somebody was found to be in. There are as many as there are different rights, and not as many as people.
    classes: Lock<Vec<KnownClass>>,
}

#[derive(Debug)]
struct KnownClass {
    /// Somebody of this class, for the servers they may use.
    scope: AccessScope,
    fitting: Arc<FittingRules>,
}

/// A class of people under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassId(pub(crate) u32);

/// What stands for the default where rules are named.
const DEFAULT: &str = "default";

/// The number of the next policy. 0 is no policy.
static NEXT: AtomicU32 = AtomicU32::new(1);

impl AccessPolicy {
    /// Puts rules in force.
    pub fn new(rules: PolicyRules) -> Arc<Self> {
        let asks_hints = rules.rules.iter().any(|rule| !rule.hints.is_empty());
        let asks_scopes = rules.rules.iter().any(|rule| rule.scope.is_some());
        // Relaxed: it only has to be another one each time.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let kept = (0..=rules.rules.len()).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { number, rules, asks_hints, asks_scopes, kept, classes: Lock::default() })
    }

    /// The rules.
    pub fn rules(&self) -> &PolicyRules {
        &self.rules
    }

    /// Whether they hold, or are only tried.
    pub fn is_enforced(&self) -> bool {
        self.rules.mode == PolicyMode::Enforce
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn asks_hints(&self) -> bool {
        self.asks_hints
    }

    /// The class of somebody. Known at once for who was looked at before.
    pub fn class(&self, scope: &AccessScope) -> ClassId {
        // Rules are about people and items: where somebody asks makes no other class of them.
        let scope = scope.base();
        ClassId(scope.class_under(self.number, || self.find_class(scope)))
    }

    fn find_class(&self, scope: &AccessScope) -> u32 {
        let fitting = self.fitting(scope.facts());
        let mut classes = self.classes.lock();
        let known = classes.iter().position(|known| *known.fitting == fitting && known.scope.same_rights(scope));
        let place = known.unwrap_or_else(|| {
            classes.push(KnownClass { scope: scope.clone(), fitting: Arc::new(fitting) });
            classes.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// How often each rule, and last the default, would have kept something.
    pub fn kept(&self) -> impl Iterator<Item = (&str, u64)> {
        let names = self.rules.rules.iter().map(|rule| rule.name.as_str()).chain([DEFAULT]);
        names.zip(self.kept.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// How many classes there are so far.
    pub fn class_count(&self) -> usize {
        self.classes.lock().len()
    }

    /// The rules that are about a class.
    pub(crate) fn fitting_of(&self, class: ClassId) -> Arc<FittingRules> {
        let classes = self.classes.lock();
        classes.get(class.0 as usize).map(|known| Arc::clone(&known.fitting)).unwrap_or_default()
    }

    /// The rules that are about somebody.
    pub fn fitting(&self, person: &PersonFacts) -> FittingRules {
        let words = self.rules.rules.len().div_ceil(64);
        let mut fitting = FittingRules {
            about: vec![0; words].into(),
            lacking: vec![0; if self.asks_scopes { words } else { 0 }].into(),
        };
        for (place, rule) in self.rules.rules.iter().enumerate().filter(|(_, rule)| rule.is_about(person)) {
            set(&mut fitting.about, place);
            if rule.scope.as_ref().is_some_and(|scope| !person.scopes.contains(scope)) {
                set(&mut fitting.lacking, place);
            }
        }
        fitting
    }

    /// Those of the rules that are about a server.
    pub(crate) fn about_server(&self, fitting: &FittingRules, server: &str) -> FittingRules {
        let mut about = fitting.clone();
        for (place, _) in self.rules.rules.iter().enumerate().filter(|(_, rule)| !rule.touches(server)) {
            clear(&mut about.about, place);
            clear(&mut about.lacking, place);
        }
        about
    }

    pub(crate) fn rules_of<'p, 'f>(
        &'p self,
        fitting: &'f FittingRules,
    ) -> impl Iterator<Item = FittingRule<'p>> + Clone + use<'p, 'f> {
        let about = self.rules.rules.iter().enumerate().filter(|(place, _)| has(&fitting.about, *place));
        about.map(|(place, rule)| FittingRule { rule, lacks_scope: has(&fitting.lacking, place) })
    }

    /// What somebody may do with an item.
    pub fn rights(&self, fitting: &FittingRules, item: &ItemFacts<'_>) -> Rights {
        self.rights_by(self.rules_of(fitting), item)
    }

    /// As [`Self::rights`], where somebody knows already which rules can matter.
    pub(crate) fn rights_by<'p>(
        &self,
        rules: impl Iterator<Item = FittingRule<'p>> + Clone,
        item: &ItemFacts<'_>,
    ) -> Rights {
        let plain = self.rights_of_spelling(rules.clone(), item);
        // Other ways to write the same URI: what a server takes for the same must not be permitted by the one and denied by the other.
        match matches!(item.kind, ListKind::Resources | ListKind::Templates).then(|| pattern::plain_uri(item.name)) {
            Some(Some(other)) => plain.and(self.rights_of_spelling(rules, &ItemFacts { name: &other, ..*item })),
            _ => plain,
        }
    }

    fn rights_of_spelling<'p>(&self, rules: impl Iterator<Item = FittingRule<'p>>, item: &ItemFacts<'_>) -> Rights {
        let (mut allowed, mut denied, mut lacks_scope) = (Rights::NONE, Rights::NONE, false);
        for FittingRule { rule, lacks_scope: lacks } in rules {
            lacks_scope |= lacks && rule.asks_scope_for(item);
            match rule.effect {
                _ if !rule.covers(item) => {}
                RuleEffect::Allow => allowed = allowed.or(rule.to),
                RuleEffect::Deny => denied = denied.or(rule.to),
            }
        }
        let permitted = match self.rules.default {
            RuleEffect::Allow => Rights::ALL,
            RuleEffect::Deny => allowed,
        };
        let permitted = permitted.without(denied);
        if lacks_scope { permitted.lacking_scope() } else { permitted }
    }

    /// The scopes that somebody's token lacks to use an item.
    pub fn lacking_scopes(&self, fitting: &FittingRules, item: &ItemFacts<'_>) -> BTreeSet<String> {
        let plain = pattern::plain_uri(item.name);
        let spelled = plain.as_deref().map(|name| ItemFacts { name, ..*item });
        let asks =
            |rule: &PolicyRule| rule.asks_scope_for(item) || spelled.is_some_and(|item| rule.asks_scope_for(&item));
        let lacking = self.rules_of(fitting).filter(|fitting| fitting.lacks_scope && asks(fitting.rule));
        lacking.filter_map(|fitting| fitting.rule.scope.clone()).collect()
    }

    /// How much of a server somebody may use.
    pub fn server_access(&self, fitting: &FittingRules, server: &str) -> ServerAccess {
        let touching = || self.rules_of(fitting).filter(|fitting| fitting.rule.touches(server));
        let whole = |effect| touching().any(|FittingRule { rule, .. }| rule.effect == effect && rule.is_whole(server));
        let any = |effect| touching().any(|fitting| fitting.rule.effect == effect);
        let lacks_scope = touching().any(|fitting| fitting.lacks_scope);
        let by_default = self.rules.default == RuleEffect::Allow;
        if whole(RuleEffect::Deny) || (!by_default && !any(RuleEffect::Allow)) {
            return ServerAccess::Nothing;
        }
        match !any(RuleEffect::Deny) && !lacks_scope && (by_default || whole(RuleEffect::Allow)) {
            true => ServerAccess::Everything,
            false => ServerAccess::Some,
        }
    }

    /// Whether nothing of any server is kept from them, whatever servers there are.
    pub(crate) fn keeps_nothing(&self, fitting: &FittingRules) -> bool {
        let keeps_nothing =
            |FittingRule { rule, lacks_scope }: FittingRule<'_>| rule.effect == RuleEffect::Allow && !lacks_scope;
        self.rules.default == RuleEffect::Allow && self.rules_of(fitting).all(keeps_nothing)
    }
}

fn has(bits: &[u64], place: usize) -> bool {
    bits.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
}

fn set(bits: &mut [u64], place: usize) {
    bits[place / 64] |= 1 << (place % 64);
}

fn clear(bits: &mut [u64], place: usize) {
    if let Some(word) = bits.get_mut(place / 64) {
        *word &= !(1 << (place % 64));
    }
}
