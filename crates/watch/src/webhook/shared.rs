//! Webhooks of a cluster: what is posted to one replica is the content at all of them.
//!
//! Under a key of each watch the log keeps the delivery that came last, with what tells it from others: the ids of the last minutes stand in
//! it, so a delivery that is repeated at another replica is known there. Every delivery is written after the one that was looked at, so all
//! replicas have them in one order. Where a pointer makes resources of parts, the last delivery of each has a key of its own; that of the delivery
//! before is written just before the next one takes its place, so that nothing is lost between the two.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use tidings_engine::{Decided, DecisionBase, DecisionFollower, DecisionKind, DecisionOutcome, FleetDecisions};
use tidings_sync::Lock;
use tokio::sync::SetOnce;

use super::signature::{SignedId, WINDOW, apart};
use super::{BadSignature, DeliveryOutcome, DeliveryRefusal, ReceivedBody, WebhookSource, WebhookState, hash};
use crate::source::SourceContent;

/// How many ids are remembered within the window. When there are more, nothing new is taken until some are old.
const MOST_IDS: usize = 1000;
/// How often a delivery is written again because others came first.
const ATTEMPTS: usize = 64;
/// How long a delivery waits for those that came before it.
const TURN_WITHIN: Duration = Duration::from_secs(15);
/// How long the delivery of another, which came first, is waited for.
const OTHERS_APPLY: Duration = Duration::from_secs(2);

/// What the webhooks of this replica share with those of the others.
#[derive(Default)]
pub struct SharedHooks {
    decisions: SetOnce<FleetDecisions>,
    state: Lock<SharedState>,
}

#[derive(Default)]
struct SharedState {
    /// All that is in the log, by subject: a watch may be configured after its deliveries were read.
    decided: BTreeMap<String, Decided>,
    /// By watch. There may be two for a while: one that was made for a file which was refused then, and the one that goes on.
    sources: HashMap<String, Vec<Weak<WebhookSource>>>,
}

/// What a source knows of the log beside its contents.
#[derive(Clone, Default)]
pub(super) struct SharedDeliveries {
    /// The number of the last delivery.
    n: u64,
    /// The URI of its part.
    part: Option<String>,
    /// Ids of the last minutes, hidden, with their times in seconds.
    ids: Vec<(String, u64)>,
    /// The parts that have a key, by that: their URI, the number of the decision and that of the delivery.
    kept: HashMap<String, KeptPart>,
}

#[derive(Clone)]
struct KeptPart {
    uri: String,
    n: u64,
    delivery: u64,
}

/// A delivery as it is written.
struct WrittenDelivery {
    /// The part that it is about; of one that is kept as a part, that one.
    part: Option<String>,
    /// Of one that is kept as a part, its number among all deliveries.
    number: u64,
    at: SystemTime,
    mime_type: Option<String>,
    ids: Vec<(String, u64)>,
    body: Bytes,
}

impl WrittenDelivery {
    /// What is known of it as one line of JSON, then the body as it is.
    fn write(&self) -> Bytes {
        let Self { part, number, at, mime_type, ids, body } = self;
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let known = json!({ "part": part, "number": number, "at": at, "mimeType": mime_type, "ids": ids });
        [known.to_string().as_bytes(), b"\n", body].concat().into()
    }

    fn read(value: &Bytes) -> Option<Self> {
        let end = value.iter().position(|byte| *byte == b'\n')?;
        let known: Value = serde_json::from_slice(&value[..end]).ok()?;
        let text = |member: &str| known[member].as_str().map(str::to_owned);
        let id = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_u64()?));
        Some(Self {
            part: text("part"),
            number: known["number"].as_u64().unwrap_or_default(),
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(known["at"].as_u64()?),
            mime_type: text("mimeType"),
            ids: known["ids"].as_array().into_iter().flatten().filter_map(id).collect(),
            body: value.slice(end + 1..),
        })
    }
}

/// Names may be longer than what a key may have.
pub(super) fn hidden(name: &str) -> String {
    blake3::hash(name.as_bytes()).to_hex()[..32].to_owned()
}

fn part_subject(watch: &str, uri: &str) -> String {
    format!("{}/{}", hidden(watch), hidden(uri))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl SharedHooks {
    /// From now on deliveries are written there, and what others write is taken.
    pub async fn attach(self: &Arc<Self>, decisions: FleetDecisions) {
        decisions.follow(DecisionKind::Hook, Arc::clone(self) as Arc<dyn DecisionFollower>).await;
        let _ = self.decisions.set(decisions);
    }

    /// A source of a watch hears of its deliveries from here on, for as long as it is there.
    pub(super) fn join(&self, source: &Arc<WebhookSource>) {
        let watch = hidden(&source.about.id);
        let mut state = self.state.lock();
        state.sources.retain(|_, known| {
            known.retain(|source| source.strong_count() > 0);
            !known.is_empty()
        });
        for (subject, decided) in state.decided.range(watch.clone()..) {
            if !subject.starts_with(&watch) {
                break;
            }
            source.decided(subject, Some(decided));
        }
        state.sources.entry(watch).or_default().push(Arc::downgrade(source));
    }

    /// What is known here is as new as what was taken anywhere, if that can be known.
    pub(super) async fn confirm(&self) {
        if let Some(decisions) = self.decisions.get() {
            decisions.confirm().await;
        }
    }
}

impl DecisionFollower for SharedHooks {
    fn decided(&self, subject: &str, decided: Option<&Decided>) {
        let mut state = self.state.lock();
        match decided {
            Some(decided) => {
                state.decided.insert(subject.to_owned(), decided.clone());
            }
            None => {
                state.decided.remove(subject);
            }
        }
        let watch = subject.split('/').next().unwrap_or(subject);
        let sources = state.sources.get(watch).into_iter().flatten();
        sources.filter_map(Weak::upgrade).for_each(|source| source.decided(subject, decided));
    }
}

impl WebhookState {
    /// Takes what stands in the log under the key of the watch.
    fn delivered(&mut self, decided: &Decided, delivery: WrittenDelivery, is_own: impl Fn(&str) -> bool) {
        let WrittenDelivery { part, at, mime_type, ids, body, .. } = delivery;
        let content = SourceContent { mime_type, bytes: body };
        let received = ReceivedBody { hash: hash(&content.bytes), content, at, number: decided.n };
        if let Some(uri) = part.as_ref().filter(|uri| is_own(uri)) {
            self.parts.insert(uri.clone(), received.clone());
        }
        self.last = Some(received);
        self.shared = SharedDeliveries { n: decided.n, part, ids, kept: std::mem::take(&mut self.shared.kept) };
    }

    /// Takes what stands under the key of a part.
    fn part_kept(&mut self, subject: &str, n: u64, delivery: WrittenDelivery, is_own: impl Fn(&str) -> bool) {
        let WrittenDelivery { part: Some(uri), number, at, mime_type, body, .. } = delivery else { return };
        let kept = KeptPart { uri: uri.clone(), n, delivery: number };
        self.shared.kept.insert(subject.to_owned(), kept);
        // The last delivery of all may be a newer one of this part.
        if is_own(&uri) && self.parts.get(&uri).is_none_or(|known| known.number <= number) {
            let content = SourceContent { mime_type, bytes: body };
            self.parts.insert(uri, ReceivedBody { hash: hash(&content.bytes), content, at, number });
        }
    }

    fn part_withdrawn(&mut self, subject: &str) {
        let Some(kept) = self.shared.kept.remove(subject) else { return };
        if self.parts.get(&kept.uri).is_some_and(|known| known.number <= kept.delivery) {
            self.parts.remove(&kept.uri);
        }
    }
}

impl WebhookSource {
    /// Something about this watch stands in the log.
    fn decided(&self, subject: &str, decided: Option<&Decided>) {
        let read = decided.map(|decided| (decided, WrittenDelivery::read(&decided.value)));
        let is_part = subject.contains('/');
        let is_own = |uri: &str| super::WatchedSource::owns(self, uri);
        {
            let mut state = self.state();
            match (read, is_part) {
                (Some((decided, Some(delivery))), false) => state.delivered(decided, delivery, is_own),
                (Some((decided, Some(delivery))), true) => state.part_kept(subject, decided.n, delivery, is_own),
                (Some((_, None)), _) => {
                    tracing::error!(watch = %self.about.id, "a delivery in the log can not be read")
                }
                (None, true) => state.part_withdrawn(subject),
                (None, false) => (state.last, state.shared) = Default::default(),
            }
        }
        self.deliveries.send_modify(|number| *number += 1);
    }

    /// Takes a delivery whose signature is right, for all replicas.
    pub(super) async fn deliver_shared(
        &self,
        hooks: &SharedHooks,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<DeliveryOutcome, DeliveryRefusal> {
        let at = SystemTime::now();
        let signed = self.verifier.check(headers, &body, at)?;
        let not_agreed = |why: &str| DeliveryRefusal::NotAgreed(why.to_owned());
        let Some(decisions) = hooks.decisions.get() else {
            return Err(not_agreed("this replica does not know the others yet"));
        };
        // One after the other here, so that each competes with those of other replicas alone.
        let Ok(_turn) = tokio::time::timeout(TURN_WITHIN, self.delivering.lock()).await else {
            return Err(not_agreed("too many deliveries wait for their turn"));
        };
        let mut deliveries = self.deliveries.subscribe();
        for _ in 0..ATTEMPTS {
            deliveries.mark_unchanged();
            let (before, last) = {
                let state = self.state();
                (state.shared.clone(), state.last.clone())
            };
            let Some(ids) = remember(&before.ids, signed.as_ref(), at)? else { return Ok(DeliveryOutcome::Again) };
            let outcome = match self.put_away(decisions, &before, last).await {
                Some(overtaken) => overtaken,
                None => {
                    let mime_type = self.mime_type(headers);
                    let part = self.part(&body);
                    let delivery = WrittenDelivery { part, number: 0, at, mime_type, ids, body: body.clone() };
                    let subject = hidden(&self.about.id);
                    let base = DecisionBase::Exactly(before.n);
                    decisions.write(DecisionKind::Hook, &subject, base, Some(delivery.write())).await
                }
            };
            match outcome {
                DecisionOutcome::Applied(_) => {
                    self.drop_oldest(decisions).await;
                    return Ok(DeliveryOutcome::Taken);
                }
                DecisionOutcome::Overtaken(_) => {
                    let _ = tokio::time::timeout(OTHERS_APPLY, deliveries.changed()).await;
                }
                DecisionOutcome::Refused(why) | DecisionOutcome::TooLarge(why) => return Err(not_agreed(&why)),
                DecisionOutcome::Unknown => return Err(not_agreed("nobody knows whether it was taken")),
            }
        }
        Err(not_agreed("others deliver all the time"))
    }

    /// Writes the delivery before under the key of its part, if that is not done. `None`: it is there. Else the next one can not be written yet.
    async fn put_away(
        &self,
        decisions: &FleetDecisions,
        before: &SharedDeliveries,
        last: Option<ReceivedBody>,
    ) -> Option<DecisionOutcome> {
        let (uri, last) = (before.part.clone()?, last?);
        let subject = part_subject(&self.about.id, &uri);
        let kept = before.kept.get(&subject);
        if kept.is_some_and(|kept| kept.delivery >= before.n) {
            return None;
        }
        let delivery = WrittenDelivery {
            part: Some(uri),
            number: before.n,
            at: last.at,
            mime_type: last.content.mime_type,
            ids: Vec::new(),
            body: last.content.bytes,
        };
        let base = DecisionBase::Exactly(kept.map_or(0, |kept| kept.n));
        match decisions.write(DecisionKind::Hook, &subject, base, Some(delivery.write())).await {
            DecisionOutcome::Applied(_) => None,
            outcome => Some(outcome),
        }
    }

    /// Forgets what is oldest, for all replicas. What fails is done with the next delivery.
    async fn drop_oldest(&self, decisions: &FleetDecisions) {
        let gone: Vec<(String, u64)> = {
            let mut rest = self.state().clone();
            let gone = rest.shrink();
            let named = |uri: &String| {
                let subject = part_subject(&self.about.id, uri);
                let kept = rest.shared.kept.get(&subject)?;
                Some((subject, kept.n))
            };
            gone.iter().filter_map(named).collect()
        };
        for (subject, n) in gone {
            let base = DecisionBase::Exactly(n);
            if let DecisionOutcome::Refused(why) = decisions.write(DecisionKind::Hook, &subject, base, None).await {
                tracing::debug!(why, "a part that is too old stays");
                return;
            }
        }
    }
}

/// The ids of the window, with that of a delivery. `None`: it was delivered before.
fn remember(
    known: &[(String, u64)],
    signed: Option<&SignedId>,
    now: SystemTime,
) -> Result<Option<Vec<(String, u64)>>, BadSignature> {
    let is_recent = |time: u64| apart(SystemTime::UNIX_EPOCH + Duration::from_secs(time), now) <= WINDOW;
    let mut ids: Vec<(String, u64)> = known.iter().filter(|(_, time)| is_recent(*time)).cloned().collect();
    let Some(SignedId { id, time }) = signed else { return Ok(Some(ids)) };
    let id = hidden(id);
    if known.iter().any(|(seen, _)| *seen == id) {
        return Ok(None);
    }
    if ids.len() >= MOST_IDS {
        return Err(BadSignature::TooMany);
    }
    ids.push((id, seconds(*time)));
    Ok(Some(ids))
}
