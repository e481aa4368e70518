//! One rule: whom it is about, which items, and what it permits or denies.

use bytes::Bytes;
use tidings_proto::ListKind;
use tidings_wire::{ByteSpan, get};

use super::ItemFacts;
use super::pattern::ItemPattern;
use crate::who::{PersonFacts, WhoPattern};

/// What a rule says of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEffect {
    /// It may be had.
    Allow,
    /// It may not, whatever else permits it.
    Deny,
}

/// What somebody may do with an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// It is in lists.
    pub const SEE: Self = Self(1);
    /// It can be called, got, read and completed.
    pub const USE: Self = Self(2);
    /// Its changes are told.
    pub const FOLLOW: Self = Self(4);
    /// Everything.
    pub const ALL: Self = Self(7);

    /// It could be used with a scope that the token lacks. Stands only beside [`Self::USE`], which then counts for nothing.
    const LACKING: u8 = 8;

    /// Whether all of these are among them.
    pub fn include(self, other: Self) -> bool {
        let held = if self.lacks_scope() { self.0 & !Self::USE.0 } else { self.0 };
        held & other.0 == other.0
    }

    /// Whether all that is missing to use it is a scope of the token.
    pub fn lacks_scope(self) -> bool {
        self.0 & Self::LACKING != 0
    }

    /// The same, where using it needs a scope that the token lacks.
    #[must_use]
    pub(super) fn lacking_scope(self) -> Self {
        // Where it may not be used at all, a scope would not help.
        if self.0 & Self::USE.0 == 0 { self } else { Self(self.0 | Self::LACKING) }
    }

    /// These and those: what one of them permits without a scope is permitted without it.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let both = Self((self.0 | other.0) & Self::ALL.0);
        let is_free = self.include(Self::USE) || other.include(Self::USE);
        if is_free || !(self.lacks_scope() || other.lacks_scope()) { both } else { both.lacking_scope() }
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = Self(self.0 & other.0 & Self::ALL.0);
        if self.lacks_scope() || other.lacks_scope() { both.lacking_scope() } else { both }
    }

    /// These without those.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        let left = Self(self.0 & Self::ALL.0 & !other.0);
        if self.lacks_scope() { left.lacking_scope() } else { left }
    }
}

/// What a tool says it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// Calling it again changes nothing more.
    pub idempotent: bool,
    /// It reaches beyond what its server knows.
    pub open_world: bool,
}

impl Default for ToolHints {
    /// What holds where nothing is said, or nobody trusts who says it.
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl ToolHints {
    /// What the definition of a tool says.
    pub fn read(raw: &Bytes) -> Self {
        let mut hints = Self::default();
        let Some(notes) = get(raw, ByteSpan::new(0, raw.len()), "annotations") else { return hints };
        let said = |name: &str, otherwise: bool| match get(raw, notes, name).map(|at| at.of(raw)) {
            Some(b"true") => true,
            Some(b"false") => false,
            // Neither yes nor no says nothing.
            _ => otherwise,
        };
        hints.read_only = said("readOnlyHint", hints.read_only);
        // The schema: what reads only destroys nothing, and can be repeated.
        hints.destructive = !hints.read_only && said("destructiveHint", hints.destructive);
        hints.idempotent = hints.read_only || said("idempotentHint", hints.idempotent);
        hints.open_world = said("openWorldHint", hints.open_world);
        hints
    }
}

/// What a rule asks of what a tool says it does; nothing where a member is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintCondition {
    /// Whether it has to change nothing.
    pub read_only: Option<bool>,
    /// Whether it has to be one that may destroy something.
    pub destructive: Option<bool>,
    /// Whether it has to be one that can be repeated.
    pub idempotent: Option<bool>,
    /// Whether it has to reach beyond its server.
    pub open_world: Option<bool>,
}

impl HintCondition {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn holds(&self, hints: ToolHints) -> bool {
        let same = |wanted: Option<bool>, said: bool| wanted.is_none_or(|wanted| wanted == said);
        same(self.read_only, hints.read_only)
            && same(self.destructive, hints.destructive)
            && same(self.idempotent, hints.idempotent)
            && same(self.open_world, hints.open_world)
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// What people call it.
    pub name: String,
    /// Whom it is about: who fits one of these.
    pub who: Vec<WhoPattern>,
    /// Whom it is not about all the same.
    pub except: Vec<WhoPattern>,
    /// Whether it permits or denies.
    pub effect: RuleEffect,
    /// Which items it is about: what fits one of these.
    pub items: Vec<ItemPattern>,
    /// The lists that these stand in, by kind.
    pub kinds: [bool; 4],
    /// What it permits or denies to do with them.
    pub to: Rights,
    /// What a tool has to say of itself. Then the rule is about tools only.
    pub hints: HintCondition,
    /// A scope without which what it permits is in lists, and can not be used.
    pub scope: Option<String>,
}

impl PolicyRule {
    pub(super) fn is_about(&self, person: &PersonFacts) -> bool {
        self.who.iter().any(|who| who.fits(person)) && !self.except.iter().any(|who| who.fits(person))
    }

    /// Whether it is about some item of a server.
    pub(crate) fn touches(&self, server: &str) -> bool {
        self.items.iter().any(|items| items.touches(server))
    }

    /// Whether it is about everything of a server, in every way.
    pub(super) fn is_whole(&self, server: &str) -> bool {
        self.kinds == [true; 4]
            && self.to == Rights::ALL
            && self.hints.is_empty()
            && self.items.iter().any(|items| items.touches(server) && items.is_whole())
    }

    pub(super) fn covers(&self, item: &ItemFacts<'_>) -> bool {
        self.kinds[item.kind as usize]
            && self.suits(item)
            && self.items.iter().any(|items| items.fits(item.server, item.name))
    }

    /// Whether it asks for a scope of those who use an item. What nobody knows may be what the scope is for.
    pub(super) fn asks_scope_for(&self, item: &ItemFacts<'_>) -> bool {
        self.scope.is_some()
            && self.kinds[item.kind as usize]
            && (self.suits(item) || (item.kind == ListKind::Tools && item.hints.is_none()))
            && self.items.iter().any(|items| items.fits(item.server, item.name))
    }

    fn suits(&self, item: &ItemFacts<'_>) -> bool {
        if self.hints.is_empty() {
            return true;
        }
        match (item.kind, item.hints) {
            (ListKind::Tools, Some(hints)) => self.hints.holds(hints),
            // What nobody knows may be what is denied, and is not what is permitted.
            (ListKind::Tools, None) => self.effect == RuleEffect::Deny,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // identity 3
    #[test]
    fn a_lacking_scope_takes_the_use_and_nothing_else() {
        let lacking = Rights::ALL.lacking_scope();
        assert!(lacking.include(Rights::SEE) && lacking.include(Rights::FOLLOW) && !lacking.include(Rights::USE));
        assert!(lacking.lacks_scope() && lacking.and(Rights::ALL).lacks_scope());
        assert!(lacking.or(Rights::ALL).include(Rights::USE), "another way needs no scope");
        assert!(lacking.or(Rights::SEE).lacks_scope());
        // What may not be used at all needs no scope either: nobody is told to get one.
        assert!(!lacking.without(Rights::USE).lacks_scope() && !lacking.and(Rights::SEE).lacks_scope());
        assert!(!Rights::SEE.lacking_scope().lacks_scope());
    }

    // identity 3
    #[test]
    fn hints_are_read_as_the_schema_has_them() {
        let read = |text: &'static str| ToolHints::read(&Bytes::from_static(text.as_bytes()));
        let plain = ToolHints { read_only: false, destructive: true, idempotent: false, open_world: true };
        assert_eq!(read(r#"{"name":"a"}"#), plain);
        assert_eq!(read(r#"{"name":"a","annotations":7}"#), plain);
        assert_eq!(read(r#"{"annotations":{"readOnlyHint":"true"}}"#), plain);
        let reads = ToolHints { read_only: true, destructive: false, idempotent: true, open_world: true };
        assert_eq!(read(r#"{"annotations":{"readOnlyHint":true,"destructiveHint":true}}"#), reads);
        let mild = ToolHints { destructive: false, open_world: false, ..plain };
        assert_eq!(read(r#"{"annotations":{"destructiveHint":false,"openWorldHint":false}}"#), mild);
    }
}
