//! The catalogue in the eyes of a client whose profile asks for shorter names, wider schemas or another choice of tools.
//!
//! Made last, of what somebody sees: rights, rules and screens have cut it before. What is rendered anew is kept with the offer that it
//! was made of, so a commit of one server renders nothing of another; what the shape leaves as it is shares everybody's rendering.

use std::collections::HashMap;
use std::sync::Arc;

use tidings_proto::{ListKind, PublicName};
use tidings_sync::Lock;

use super::RenderedOffer;
use crate::catalogue::CatalogueSnapshot;
use crate::catalogue::names::{ItemRoute, RenamedItem, ShownNames};
use crate::catalogue::offer::{OfferExposure, ServerOffer};
use crate::client_profile::{ToolExposure, ViewShape, short_name, touches};
use crate::scope::AccessScope;

/// How many shapes of one snapshot, and of one offer, are kept. There are as many as there are different profiles; more are made each time.
const KEPT: usize = 64;

/// The short names of a shaped catalogue. Calls by them are looked up here, and by whole names where everybody's are.
#[derive(Debug)]
pub(in crate::catalogue) struct ShortNames(HashMap<PublicName, ItemRoute>);

impl ShortNames {
    pub(in crate::catalogue) fn route(&self, name: &str) -> Option<&ItemRoute> {
        self.0.get(name)
    }
}

/// What a shape makes of one server's offer.
#[derive(Clone, Debug)]
pub(in crate::catalogue) struct OfferShape {
    pub(in crate::catalogue) shape: Arc<ViewShape>,
    /// The whole names of its tools.
    pub(in crate::catalogue) full_names: ShownNames,
}

/// The shapes of one offer that somebody wanted.
#[derive(Debug, Default)]
pub(in crate::catalogue) struct OfferShapes(Lock<Vec<KnownShape>>);

/// A shape, and the offer in it; nothing stands for the offer as it is.
type KnownShape = (Arc<ViewShape>, Option<Arc<RenderedOffer>>);

/// The shapes of a snapshot that somebody wanted.
pub(in crate::catalogue) type SnapshotShapes = Lock<Vec<(Arc<ViewShape>, Arc<CatalogueSnapshot>)>>;

fn is_same(one: &Arc<ViewShape>, other: &Arc<ViewShape>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl CatalogueSnapshot {
    /// What somebody sees of it with a client of this shape.
    pub fn seen_as(self: &Arc<Self>, scope: &AccessScope, shape: Option<&Arc<ViewShape>>) -> Arc<Self> {
        let seen = self.seen_by(scope);
        match shape {
            None => seen,
            Some(shape) => seen.shaped(shape),
        }
    }

    /// The same catalogue in a shape.
    pub fn shaped(self: &Arc<Self>, shape: &Arc<ViewShape>) -> Arc<Self> {
        // Held while it is made, so that it is made once.
        let mut known = self.parts.shapes.lock();
        if let Some((_, part)) = known.iter().find(|(of, _)| is_same(of, shape)) {
            return Arc::clone(part);
        }
        let part = Arc::new(self.part_shaped(shape));
        if known.len() < KEPT {
            known.push((Arc::clone(shape), Arc::clone(&part)));
        }
        part
    }

    fn part_shaped(&self, shape: &Arc<ViewShape>) -> Self {
        let mut rendered: Vec<Arc<RenderedOffer>> = self.rendered.iter().map(|of| of.shaped(shape)).collect();
        let mut short = HashMap::new();
        for of in &mut rendered {
            let again = self.name_short(of, &mut short);
            if !again.is_empty() {
                *of = Arc::new(of.renamed(&again, &[]));
            }
        }
        // Also where no name is short: that there is a table tells a shaped catalogue from others.
        Self { short_names: Some(ShortNames(short)), ..self.showing(rendered) }
    }

    /// Puts the short names of an offer into the table. Gives back what has to be called otherwise, because somebody has the name.
    fn name_short(&self, of: &RenderedOffer, short: &mut HashMap<PublicName, ItemRoute>) -> Vec<RenamedItem> {
        let mut again = Vec::new();
        let Some(OfferShape { shape, full_names }) = &of.shape else { return again };
        let (Some(budget), Some(names)) = (shape.name_budget, of.names(ListKind::Tools)) else { return again };
        for (place, (name, full)) in names.iter().zip(&**full_names).enumerate() {
            if name == full {
                continue;
            }
            let item = &of.offer.list(ListKind::Tools).items[place];
            // A name that everybody is shown wins, whoever has it: it must never lead elsewhere for some.
            let is_taken =
                |name: &PublicName, short: &HashMap<_, _>| self.tools.is_shown(name) || short.contains_key(name);
            let mut free = name.clone();
            for attempt in 1.. {
                if !is_taken(&free, short) {
                    break;
                }
                // Always another one: whole names that fit were passed over above.
                let Some(next) = short_name(full.as_str(), budget, attempt) else { break };
                free = next;
            }
            if free != *name {
                again.push((of.offer.server, item.key.clone(), free.clone()));
            }
            short.insert(free, ItemRoute { server: of.offer.server, local: item.key.clone() });
        }
        again
    }
}

impl RenderedOffer {
    /// The offer in a shape; itself where the shape changes nothing of it.
    fn shaped(self: &Arc<Self>, shape: &Arc<ViewShape>) -> Arc<Self> {
        // Held while it is made, so that it is made once.
        let mut known = self.shapes.0.lock();
        if let Some((_, shaped)) = known.iter().find(|(of, _)| is_same(of, shape)) {
            return Arc::clone(shaped.as_ref().unwrap_or(self));
        }
        let made = self.make_shaped(shape).map(Arc::new);
        let shaped = Arc::clone(made.as_ref().unwrap_or(self));
        if known.len() < KEPT {
            known.push((Arc::clone(shape), made));
        }
        shaped
    }

    fn make_shaped(self: &Arc<Self>, shape: &Arc<ViewShape>) -> Option<Self> {
        let (offer, full_names) = (&self.offer, self.names(ListKind::Tools)?);
        let listed = exposed(offer, shape.expose);
        let too_long = |name: &PublicName| shape.name_budget.is_some_and(|budget| name.as_str().len() > budget);
        let changes = full_names.iter().any(too_long)
            || (!shape.schema.is_empty()
                && offer.list(ListKind::Tools).items.iter().any(|item| touches(shape.schema, &item.raw)));
        if !changes && listed == offer.listed {
            return None;
        }
        let short = |name: &PublicName| {
            let short = shape.name_budget.and_then(|budget| short_name(name.as_str(), budget, 0));
            short.unwrap_or_else(|| name.clone())
        };
        let tools: ShownNames = full_names.iter().map(short).collect();
        let prompts = self.names(ListKind::Prompts).cloned().unwrap_or_default();
        let offer = match listed == offer.listed {
            true => Arc::clone(offer),
            false => Arc::new(ServerOffer { listed, ..(**offer).clone() }),
        };
        // What is cut out of a whole is cut out of the whole in this shape.
        let source = self.source.as_ref().and_then(|source| source.shaped(|whole| whole.shaped(shape)));
        let of = OfferShape { shape: Arc::clone(shape), full_names: Arc::clone(full_names) };
        Some(Self::new(offer, tools, prompts).in_shape_of(of, source))
    }
}

/// Whether the tools of an offer are listed.
fn exposed(offer: &ServerOffer, expose: Option<ToolExposure>) -> bool {
    match (offer.exposure, expose) {
        (_, None) | (OfferExposure::OfItself, _) => offer.listed,
        (OfferExposure::Ordinary, Some(expose)) => expose != ToolExposure::Search,
        (OfferExposure::FindsTools, Some(expose)) => expose != ToolExposure::All,
    }
}
