//! One server's offer in the eyes of people whom the same rules are about.
//!
//! A screen is kept with the offer that it was made of: a commit of one server makes the screens of that server anew, and of no
//! other. Its lists are cut out of what is rendered for everybody.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use tidings_proto::{FieldView, ListKind, Revision};
use tidings_sync::Lock;

use super::{OfferSegment, RenderedOffer};
use crate::ServerId;
use crate::catalogue::offer::{OfferItem, ScreenedItem, ServerOffer};
use crate::catalogue::{CatalogueSnapshot, template_covers};
use crate::policy::{AccessPolicy, FittingRule, FittingRules, ItemFacts, Rights, ServerAccess, ToolHints, TriedRule};
use crate::scope::{AccessScope, ServerAudience};

/// How many screens of one offer are kept. There are as many as there are different sets of rules about its server that somebody has; more
/// are made each time.
const KEPT: usize = 1024;

/// What some people may do with the items of one server.
#[derive(Debug)]
pub(in crate::catalogue) struct PolicyScreen {
    /// What they see; `None` where that is all of it.
    pub(in crate::catalogue) seen: Option<Arc<RenderedOffer>>,
    /// What they may do, by list and by place among the sorted items.
    rights: [Box<[Rights]>; 4],
}

/// The screens of one offer that somebody wanted, all of one policy.
#[derive(Debug, Default)]
pub(in crate::catalogue) struct PolicyScreens(Lock<ScreensOfPolicy>);

#[derive(Debug, Default)]
struct ScreensOfPolicy {
    /// The number of the policy.
    policy: u32,
    known: Vec<(FittingRules, Arc<PolicyScreen>)>,
}

/// Where the lists of a screened offer are cut out of.
#[derive(Debug)]
pub(in crate::catalogue) struct ScreenSource {
    /// Weak: the whole keeps its screens.
    whole: Weak<RenderedOffer>,
    /// For each item of the whole its place here.
    places: [Box<[Option<u32>]>; 4],
}

/// What rules keep from those who see a part of a catalogue.
#[derive(Clone, Debug)]
pub(in crate::catalogue) struct PartLimits {
    policy: Arc<AccessPolicy>,
    fitting: Arc<FittingRules>,
    /// For each offer of the part the whole of it, and what of it may be had; `None` where that is everything.
    pub(in crate::catalogue) screens: Vec<Option<(Arc<ServerOffer>, Arc<PolicyScreen>)>>,
}

impl RenderedOffer {
    /// What those may do with its items whom these rules are about.
    fn screen(self: &Arc<Self>, policy: &AccessPolicy, fitting: &FittingRules) -> Arc<PolicyScreen> {
        // Rules about other servers tell nobody apart here.
        let fitting = policy.about_server(fitting, &self.offer.name);
        // Held while it is made, so that it is made once.
        let mut screens = self.screens.0.lock();
        // By number and not by address: another policy may lie where one lay that is gone.
        if screens.policy != policy.number() {
            *screens = ScreensOfPolicy { policy: policy.number(), known: Vec::new() };
        }
        if let Some((_, known)) = screens.known.iter().find(|(of, _)| *of == fitting) {
            return Arc::clone(known);
        }
        let made = Arc::new(self.make_screen(policy, &fitting));
        if screens.known.len() < KEPT {
            screens.known.push((fitting, Arc::clone(&made)));
        }
        made
    }

    fn make_screen(self: &Arc<Self>, policy: &AccessPolicy, fitting: &FittingRules) -> PolicyScreen {
        let offer = &self.offer;
        let rules: Vec<FittingRule<'_>> = policy.rules_of(fitting).collect();
        let asks_hints = policy.asks_hints() && offer.trusts_annotations;
        let rights = ListKind::ALL.map(|kind| {
            let hints = |item: &OfferItem| match asks_hints && kind == ListKind::Tools {
                true => ToolHints::read(&item.raw),
                false => ToolHints::default(),
            };
            let of = |item: &OfferItem| {
                let (server, name) = (&*offer.name, item.key.as_str());
                let facts = ItemFacts { server, kind, name, hints: Some(hints(item)) };
                policy.rights_by(rules.iter().copied(), &facts)
            };
            offer.list(kind).items.iter().map(of).collect::<Box<[Rights]>>()
        });
        let sees_all = rights.iter().flatten().all(|rights| rights.include(Rights::SEE));
        let seen = (!sees_all).then(|| Arc::new(self.without_unseen(&rights)));
        PolicyScreen { seen, rights }
    }

    /// The offer with what may be seen of it.
    fn without_unseen(self: &Arc<Self>, rights: &[Box<[Rights]>; 4]) -> Self {
        let sees = |kind: ListKind, place: usize| rights[kind as usize][place].include(Rights::SEE);
        let lists = ListKind::ALL.map(|kind| {
            // `screened` asks in the order of the sorted items, so counting gives their places.
            let mut places = 0..;
            self.offer.list(kind).screened(|_| match places.next().is_some_and(|place| sees(kind, place)) {
                true => ScreenedItem::Keep,
                false => ScreenedItem::Leave,
            })
        });
        let names = |kind: ListKind| {
            let names = self.names(kind).into_iter().flat_map(|names| names.iter());
            names.enumerate().filter(|(place, _)| sees(kind, *place)).map(|(_, name)| name.clone()).collect()
        };
        let (tools, prompts) = (names(ListKind::Tools), names(ListKind::Prompts));
        let places = ListKind::ALL.map(|kind| {
            let mut next = 0..;
            let place = |place: usize| sees(kind, place).then(|| next.next()).flatten();
            (0..rights[kind as usize].len()).map(place).collect()
        });
        let source = ScreenSource { whole: Arc::downgrade(self), places };
        let offer = ServerOffer { lists, ..(*self.offer).clone() };
        Self::cut_out_of(source, Arc::new(offer), tools, prompts)
    }
}

impl ScreenSource {
    /// What it is cut out of, if that is still there.
    pub(in crate::catalogue) fn whole(&self) -> Option<Arc<RenderedOffer>> {
        self.whole.upgrade()
    }

    /// The same part of the whole in another form.
    pub(in crate::catalogue) fn shaped(
        &self,
        form: impl FnOnce(&Arc<RenderedOffer>) -> Arc<RenderedOffer>,
    ) -> Option<Self> {
        let whole = Arc::downgrade(&form(&self.whole.upgrade()?));
        Some(Self { whole, places: self.places.clone() })
    }

    /// The part of a list that is seen, if the whole of it is still there.
    pub(in crate::catalogue) fn cut(
        &self,
        kind: ListKind,
        revision: Revision,
        view: FieldView,
    ) -> Option<OfferSegment> {
        let whole = self.whole.upgrade()?;
        Some(whole.segment(kind, revision, view).cut(whole.offer.server, &self.places[kind as usize]))
    }
}

impl PolicyScreen {
    fn rights(&self, kind: ListKind, place: usize) -> Rights {
        // No rights at a place that is not there: what is not known is not permitted.
        self.rights[kind as usize].get(place).copied().unwrap_or_default()
    }
}

impl PartLimits {
    pub(in crate::catalogue) fn new(policy: &Arc<AccessPolicy>, fitting: Arc<FittingRules>) -> Self {
        Self { policy: Arc::clone(policy), fitting, screens: Vec::new() }
    }

    /// The same for a part in which only one of these offers is, or none.
    pub(in crate::catalogue) fn of_place(&self, place: Option<usize>) -> Self {
        let screens = place.map(|place| self.screens[place].clone()).into_iter().collect();
        Self { policy: Arc::clone(&self.policy), fitting: Arc::clone(&self.fitting), screens }
    }

    /// Takes one more offer into the part, as far as it is to be seen; `None` when the server is not there at all.
    pub(in crate::catalogue) fn take(&mut self, of: &Arc<RenderedOffer>) -> Option<Arc<RenderedOffer>> {
        let access = match of.offer.audience {
            ServerAudience::ByName => self.policy.server_access(&self.fitting, &of.offer.name),
            // What is built in shows each caller only what that caller may see.
            ServerAudience::Everybody | ServerAudience::Admins => ServerAccess::Everything,
        };
        match access {
            ServerAccess::Nothing => None,
            ServerAccess::Everything => {
                self.screens.push(None);
                Some(Arc::clone(of))
            }
            ServerAccess::Some => {
                let screen = of.screen(&self.policy, &self.fitting);
                let seen = Arc::clone(screen.seen.as_ref().unwrap_or(of));
                self.screens.push(Some((Arc::clone(&of.offer), screen)));
                Some(seen)
            }
        }
    }

    /// What may be done with something that no list of its server has.
    fn rights_unlisted(
        &self,
        server: &str,
        kind: ListKind,
        name: &str,
        whole: Option<(&ServerOffer, &PolicyScreen)>,
    ) -> Rights {
        let facts = ItemFacts { server, kind, name, hints: None };
        let rights = self.policy.rights(&self.fitting, &facts);
        let (ListKind::Resources, Some((offer, screen))) = (kind, whole) else { return rights };
        // A URI that only comes from templates which they may not have is not theirs either.
        let templates = offer.list(ListKind::Templates).items.iter().enumerate();
        let covering = templates.filter(|(_, template)| template_covers(template.key.as_str(), name));
        let by_template = covering.map(|(place, _)| screen.rights(ListKind::Templates, place)).reduce(Rights::or);
        by_template.map_or(rights, |by_template| rights.and(by_template))
    }
}

/// A server, as rules know it.
#[derive(Clone, Copy, Debug)]
pub struct RuledServer<'a> {
    /// Which one it is.
    pub id: ServerId,
    /// Its configured name.
    pub name: &'a str,
    /// Who may use it at all.
    pub audience: ServerAudience,
}

impl CatalogueSnapshot {
    /// What a server offers, also what those who see this may not see of it.
    pub fn whole_offer(&self, server: ServerId) -> Option<&Arc<ServerOffer>> {
        let place = self.place(server)?;
        let screen = self.limits.as_ref().and_then(|limits| limits.screens[place].as_ref());
        Some(screen.map_or(&self.offers[place], |(whole, _)| whole))
    }

    /// Whether there are rules at all.
    #[inline]
    pub fn is_ruled(&self) -> bool {
        self.policy.is_some()
    }

    /// Whether those who see this may do something with an item, be it listed or not. `name` is as the server spells it.
    #[inline]
    pub fn permits(&self, server: RuledServer<'_>, kind: ListKind, name: &str, right: Rights) -> bool {
        match &self.limits {
            None => true,
            Some(limits) => self.rights(limits, server, kind, name).include(right),
        }
    }

    /// The scopes that the token lacks of those who see this, where they are all that is missing to use an item. Asked only when
    /// [`Self::permits`] says no.
    pub fn lacking_scopes(&self, server: RuledServer<'_>, kind: ListKind, name: &str) -> Option<BTreeSet<String>> {
        let limits = self.limits.as_ref()?;
        if !self.rights(limits, server, kind, name).lacks_scope() {
            return None;
        }
        let offer = self.whole_offer(server.id);
        let asked = |kind: ListKind, name: &str| {
            let hints = offer.and_then(|offer| hints_of(offer, kind, name));
            let facts = ItemFacts { server: server.name, kind, name, hints };
            limits.policy.lacking_scopes(&limits.fitting, &facts)
        };
        let mut scopes = asked(kind, name);
        if scopes.is_empty() {
            // Then it is a URI of templates that need them.
            let templates = offer.into_iter().flat_map(|offer| &offer.list(ListKind::Templates).items);
            let covering = templates.filter(|item| item.key == *name || template_covers(item.key.as_str(), name));
            scopes.extend(covering.flat_map(|template| asked(ListKind::Templates, template.key.as_str())));
        }
        Some(scopes)
    }

    /// How much of a server the rules let somebody use, also of what no list names.
    pub fn access_by_rules(&self, scope: &AccessScope, server: RuledServer<'_>) -> ServerAccess {
        match &self.policy {
            Some(policy) if policy.is_enforced() && server.audience == ServerAudience::ByName => {
                policy.server_access(&policy.fitting_of(policy.class(scope)), server.name)
            }
            _ => ServerAccess::Everything,
        }
    }

    /// Whether the rules let somebody know of a server: some item of it is theirs, or could be whatever it is.
    pub fn shows_server(self: &Arc<Self>, scope: &AccessScope, server: RuledServer<'_>) -> bool {
        match self.access_by_rules(scope, server) {
            ServerAccess::Nothing => false,
            ServerAccess::Everything => true,
            ServerAccess::Some => self.seen_by(scope).has_some_of(server.id),
        }
    }

    /// Whether anything may be done with some listed item of a server.
    fn has_some_of(&self, server: ServerId) -> bool {
        let Some(place) = self.place(server) else { return false };
        match self.limits.as_ref().and_then(|limits| limits.screens[place].as_ref()) {
            None => true,
            Some((_, screen)) => screen.rights.iter().flatten().any(|rights| *rights != Rights::NONE),
        }
    }

    /// What would keep something from somebody, if the rules were not only tried.
    pub fn would_keep(
        &self,
        scope: &AccessScope,
        server: RuledServer<'_>,
        kind: ListKind,
        name: &str,
        right: Rights,
    ) -> Option<TriedRule> {
        let policy = self.policy.as_ref().filter(|policy| !policy.is_enforced())?;
        let hints = self.offer(server.id).and_then(|offer| hints_of(offer, kind, name));
        let facts = ItemFacts { server: server.name, kind, name, hints };
        TriedRule::of(policy, scope, server.audience, &facts, right)
    }

    fn rights(&self, limits: &PartLimits, server: RuledServer<'_>, kind: ListKind, name: &str) -> Rights {
        if server.audience != ServerAudience::ByName {
            return Rights::ALL;
        }
        let Some(place) = self.place(server.id) else {
            // A server that is not there yet, or not for them, is judged by its name. Where that is not enough, nothing of it is used before
            // its lists are known: a template that they may not have may be among them.
            return match limits.policy.server_access(&limits.fitting, server.name) {
                ServerAccess::Everything => Rights::ALL,
                _ => limits.rights_unlisted(server.name, kind, name, None).without(Rights::USE),
            };
        };
        let Some((offer, screen)) = &limits.screens[place] else { return Rights::ALL };
        let listed = |kind: ListKind| Some(screen.rights(kind, offer.list(kind).place_of_text(name)?));
        // Who completes a template names it where others name a resource.
        let template = || listed(ListKind::Templates).filter(|_| kind == ListKind::Resources);
        let unlisted = || limits.rights_unlisted(server.name, kind, name, Some((offer, screen)));
        listed(kind).or_else(template).unwrap_or_else(unlisted)
    }

    /// Whether an item of a table of names or URIs is there at all for those who see this.
    pub(in crate::catalogue) fn has_item(&self, kind: ListKind, server: ServerId, name: &str) -> bool {
        // The tables of names know nobody else, unless it is limited.
        if !self.limited {
            return true;
        }
        let Some(place) = self.place(server) else { return false };
        match self.limits.as_ref().and_then(|limits| limits.screens[place].as_ref()) {
            None => true,
            Some((offer, screen)) => {
                let place = offer.list(kind).place_of_text(name);
                place.is_some_and(|place| screen.rights(kind, place) != Rights::NONE)
            }
        }
    }
}

/// What a tool says it does, as far as its server is believed; `None` where no list has it.
fn hints_of(offer: &ServerOffer, kind: ListKind, name: &str) -> Option<ToolHints> {
    let item = offer.list(kind).items.get(offer.list(kind).place_of_text(name)?)?;
    let trusts = offer.trusts_annotations && kind == ListKind::Tools;
    Some(if trusts { ToolHints::read(&item.raw) } else { ToolHints::default() })
}

impl OfferSegment {
    /// The list without what is not seen.
    fn cut(&self, server: ServerId, places: &[Option<u32>]) -> Self {
        let kept = (0..self.len()).filter_map(|at| Some((at, places.get(self.items[at] as usize).copied()??)));
        Self::joined(
            server,
            // The hashes of the items are those of everybody's list: nothing is hashed again but the whole.
            kept.map(|(at, place)| (place, self.digests[at], &self.text()[self.start(at)..self.ends[at]])),
        )
    }
}
