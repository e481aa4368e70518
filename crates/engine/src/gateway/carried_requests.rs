//! Requests of other replicas that this one carries out, as if a modern client had asked for one server alone. How they come over the bus is
//! in `fleet/carried.rs`.

use std::collections::BTreeSet;

use serde_json::Value;
use tidings_hub::fleet::FleetServerName;
use tidings_hub::fleet::frames::{ExchangeKind, FaultReason, NumberedItem, RanState};
use tidings_hub::scope::AccessScope;
use tidings_hub::who::PersonFacts;
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, LogLevel, Method, Revision};
use tidings_upstream::{CallEvent, MAX_MESSAGE, OutgoingRequest};
use tidings_wire::{Frame, FrameLimits, RawId};
use tokio::sync::mpsc;

use super::Gateway;
use crate::call::exchange::Reply;
use crate::client::principal::Principal;
use crate::client::session::Caller;
use crate::fleet::carried::{CarriedWork, unwrap};
use crate::fleet::{FleetSeat, HttpPiece};

/// The pieces of an answer.
const PIECE: usize = 256 << 10;
/// How many pieces of an HTTP answer may wait for the bus.
const HTTP_PIECES: usize = 4;

/// Carries a request out, and says what comes of it.
pub(super) async fn carry_out(gateway: Gateway, work: CarriedWork) {
    let cancelled = work.cancelled.clone();
    let working = async {
        match work.kind {
            ExchangeKind::Http => answer_http(&work).await,
            ExchangeKind::Call | ExchangeKind::Follow => match &work.server {
                FleetServerName::Server(server) => answer_call(&gateway, &work, server).await,
                FleetServerName::Watch(watch) => answer_watch(&work, watch).await,
            },
        }
    };
    // Dropping the exchange cancels its call.
    tokio::select! {
        () = working => {}
        () = cancelled.cancelled() => return,
    }
    // Nobody is left without an end; where there was one, nothing is said.
    let fault = NumberedItem::Fault { ran: RanState::Perhaps, reason: FaultReason::Unknown };
    work.desk.say(&work.exchange, fault).await;
}

async fn answer_call(gateway: &Gateway, work: &CarriedWork, server: &str) {
    let Some((asker, bytes)) = unwrap(&work.bytes) else { return };
    let limits = FrameLimits { max_bytes: MAX_MESSAGE, max_depth: 512, max_batch: 1 };
    let Ok(frame) = Frame::parse(bytes, &limits) else { return };
    let Some(id) = frame.id() else { return };
    let principal = asking(&asker, server);
    let mut exchange = match admit(gateway, &principal, &frame) {
        Ok((caller, method)) => gateway.request(caller, frame, method, id),
        Err(refusal) => return refuse(work, &refusal, &id).await,
    };
    loop {
        match exchange.next().await {
            Reply::Message(message) => {
                if !work.desk.say(&work.exchange, NumberedItem::Message { bytes: message.to_vec() }).await {
                    return;
                }
            }
            Reply::Answer(answer) | Reply::Forbidden { answer, .. } => {
                return say_answer(work, &answer.payload.to_bytes()).await;
            }
            Reply::Cancelled => return,
            Reply::Opened | Reply::Interrupted(_) => {}
        }
    }
}

/// A request about what this replica looks at for all: answered for as long as it does.
async fn answer_watch(work: &CarriedWork, watch: &str) {
    let Some(link) = work.desk.watch_host.get().and_then(|host| host.link(watch)) else { return };
    let Some((_, bytes)) = unwrap(&work.bytes) else { return };
    let limits = FrameLimits { max_bytes: MAX_MESSAGE, max_depth: 512, max_batch: 1 };
    let Ok(frame) = Frame::parse(bytes.clone(), &limits) else { return };
    let Some(method) = Method::asked(&frame.method(), Era::Modern) else { return };
    let Some(id) = frame.id().and_then(|id| id.as_str().parse().ok()) else { return };
    let mut seats = work.desk.seats();
    let is_here = |seat: Option<&FleetSeat>| matches!(seat, Some(FleetSeat::Here(_)));
    let mut events = link.call(OutgoingRequest { id, method, bytes, name: None, params: Vec::new(), trace: None });
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            // Who follows it goes where it is looked at now.
            _ = seats.wait_for(|seats| !is_here(seats.get(&work.server))) => return,
        };
        match event {
            CallEvent::Message(message) => {
                if !work.desk.say(&work.exchange, NumberedItem::Message { bytes: message.bytes().to_vec() }).await {
                    return;
                }
            }
            CallEvent::Response(frame) => return say_answer(work, frame.bytes()).await,
            _ => return,
        }
    }
}

async fn refuse(work: &CarriedWork, refusal: &RequestRefusal, id: &RawId) {
    say_answer(work, &refusal.respond(id, Era::Modern)).await;
}

async fn say_answer(work: &CarriedWork, answer: &[u8]) {
    let mut pieces = answer.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let bytes = piece.to_vec();
        let item = if pieces.peek().is_some() { NumberedItem::Part { bytes } } else { NumberedItem::Answer { bytes } };
        if !work.desk.say(&work.exchange, item).await {
            return;
        }
    }
}

/// What the transports decide of a modern request, of one that came over the bus.
fn admit(gateway: &Gateway, principal: &Principal, frame: &Frame) -> Result<(Caller, Method), RequestRefusal> {
    let meta = ModernMeta::read(frame).map_err(|fault| RequestRefusal::InvalidParams(fault.to_string()))?;
    let revision = Revision::parse_modern(&meta.version)
        .ok_or_else(|| RequestRefusal::UnsupportedVersion(meta.version.clone()))?;
    let name = frame.method();
    let method = Method::asked(&name, Era::Modern).ok_or_else(|| RequestRefusal::UnknownMethod(name.into_owned()))?;
    let level = frame.param_str(&["_meta", meta::LOG_LEVEL]).and_then(|level| LogLevel::parse(&level));
    // Names and schemas were made for the client where it came in: here they are the server's own.
    let caller = gateway.modern_caller(None, revision, principal, level, meta.capabilities, None);
    Ok((Caller::Modern(caller), method))
}

/// A request for a session that lives here.
async fn answer_http(work: &CarriedWork) {
    let Some(http) = work.desk.http.lock().clone() else { return };
    let (say, said) = mpsc::channel(HTTP_PIECES);
    let answering = http.answer(work.bytes.clone(), say);
    let saying = async {
        // Dropped with this: whoever answers notices that nobody listens.
        let mut said = said;
        while let Some(piece) = said.recv().await {
            match piece {
                HttpPiece::Head(bytes) => {
                    if !work.desk.say(&work.exchange, NumberedItem::Message { bytes: bytes.to_vec() }).await {
                        return;
                    }
                }
                HttpPiece::Body(bytes) => {
                    for piece in bytes.chunks(PIECE) {
                        if !work.desk.say(&work.exchange, NumberedItem::Message { bytes: piece.to_vec() }).await {
                            return;
                        }
                    }
                }
                HttpPiece::End(_) => break,
            }
        }
        work.desk.say(&work.exchange, NumberedItem::Answer { bytes: Vec::new() }).await;
    };
    tokio::join!(answering, saying);
}

fn asking(asker: &Value, server: &str) -> Principal {
    let words = |member: &str| -> BTreeSet<String> {
        let listed = asker[member].as_array().into_iter().flatten();
        listed.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let claims = asker["claims"].as_array().into_iter().flatten();
    let claims = claims.filter_map(|claim| Some((claim[0].as_str()?.to_owned(), claim[1].as_str()?.to_owned())));
    let facts = PersonFacts {
        token: asker["token"].as_str().map(str::to_owned),
        groups: words("groups"),
        scopes: words("scopes"),
        claims: claims.collect(),
    };
    // Which servers they may use was judged where they came in.
    let scope = AccessScope::everything().of_person(facts).alone_with(server);
    Principal::new(asker["name"].as_str().unwrap_or_default(), scope)
}
