//! Why somebody may do something, or may not: the rule that decides, in the same words as the decision itself.

use super::{AccessPolicy, ItemFacts, PolicyRule, Rights, RuleEffect};
use crate::scope::{AccessScope, ServerAudience};

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider<'p> {
    /// The servers of their token: this one is not among them.
    Servers,
    /// A rule.
    Rule(&'p PolicyRule),
    /// A rule, because the same URI can be written so that the rule is about it.
    RuleOfSpelling(&'p PolicyRule),
    /// A rule that asks for a scope which their token lacks.
    Scope(&'p PolicyRule),
    /// No rule is about it.
    Default,
    /// The server is part of the program, and shows each caller only what that caller may see: rules are not about it.
    BuiltIn,
}

/// How it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'p> {
    /// Whether they may.
    pub allowed: bool,
    /// What decides.
    pub by: Decider<'p>,
}

impl AccessPolicy {
    /// Whether somebody may do one thing with an item, and why.
    pub fn explain(
        &self,
        scope: &AccessScope,
        audience: ServerAudience,
        item: &ItemFacts<'_>,
        right: Rights,
    ) -> Verdict<'_> {
        if !scope.permits(audience, item.server) {
            return Verdict { allowed: false, by: Decider::Servers };
        }
        if audience != ServerAudience::ByName {
            return Verdict { allowed: true, by: Decider::BuiltIn };
        }
        let fitting = self.fitting(scope.facts());
        let rights = self.rights(&fitting, item);
        let allowed = rights.include(right);
        let plain = super::pattern::plain_uri(item.name);
        if !allowed && rights.lacks_scope() {
            let asks = |rule: &PolicyRule| {
                let spelled = plain.as_deref().map(|name| ItemFacts { name, ..*item });
                rule.asks_scope_for(item) || spelled.is_some_and(|item| rule.asks_scope_for(&item))
            };
            let mut lacking = self.rules_of(&fitting).filter(|fitting| fitting.lacks_scope);
            if let Some(asking) = lacking.find(|fitting| asks(fitting.rule)) {
                return Verdict { allowed, by: Decider::Scope(asking.rule) };
            }
        }
        let first = |effect: RuleEffect, name: &str| {
            let item = ItemFacts { name, ..*item };
            let rules = self.rules_of(&fitting).map(|fitting| fitting.rule);
            // The first in the order of the configuration is named, though others may say the same.
            rules.filter(|rule| rule.effect == effect && rule.to.include(right)).find(|rule| rule.covers(&item))
        };
        let by = match (allowed, first(RuleEffect::Deny, item.name)) {
            (false, Some(rule)) => Decider::Rule(rule),
            (false, None) => match plain.and_then(|name| first(RuleEffect::Deny, &name)) {
                Some(rule) => Decider::RuleOfSpelling(rule),
                None => Decider::Default,
            },
            (true, _) => first(RuleEffect::Allow, item.name).map_or(Decider::Default, Decider::Rule),
        };
        Verdict { allowed, by }
    }
}
