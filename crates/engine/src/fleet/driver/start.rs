//! The beginning of the driver: from the settings to the bus, again and again until it is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_cluster::{BusArrivals, FleetBus as _, NatsBus};
use tidings_hub::fleet::entry::{IsolationRule, PlacedServer};
use tidings_hub::fleet::fold::FleetFold;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame};
use tidings_hub::fleet::index_reads::IndexReads;
use tidings_hub::fleet::members::{BEAT_EVERY, FleetMembers};
use tidings_hub::fleet::ownership::FleetOwnership;
use tidings_hub::fleet::{BlobHash, ReplicaId};
use tokio::sync::mpsc;

use super::decisions::DecisionRoom;
use super::exchanges::{CarriedRequests, ForwardedRequests};
use super::kept_state::{self, KeptBeginning, StateRoom};
use super::offers::OfferWrites;
use super::old_lists::OldLists;
use super::said::SaidElsewhere;
use super::set_changes::SetChanges;
use super::{DriverEvent, DriverOutward, DriverPace, FleetDriver, FleetEffects, LocalReplica};
use crate::fleet::decisions::{DecisionOutcome, DecisionWish, NOT_CONNECTED};
use crate::fleet::desk::{FleetDesk, FleetWish};
use crate::fleet::log_reader::LogReading;
use crate::fleet::shown::FleetShown;

const CONNECT_AGAIN: Duration = Duration::from_secs(1);
/// How many readers may wait for an index.
const READERS: usize = 65_536;
/// Frames that wait to be sent.
const FRAMES: usize = 8192;

/// The plan of a replica: the servers of its file, and their hash.
pub(crate) fn config_hash(plan: &[PlacedServer]) -> BlobHash {
    let mut whole = Vec::new();
    for server in plan {
        whole.extend_from_slice(server.name.written().as_bytes());
        whole.push(0);
        whole.extend_from_slice(&server.definition.0);
        // What says nothing of them has the hash of files before there were any.
        for label in &server.placement {
            whole.push(1);
            whole.extend_from_slice(label.as_bytes());
        }
        if server.on_isolation == IsolationRule::Stop {
            whole.push(2);
        }
    }
    BlobHash::of(&whole)
}

/// Connects, and drives until the replica leaves.
pub(crate) async fn run(desk: Arc<FleetDesk>, effects: Arc<dyn FleetEffects>, plan: Vec<PlacedServer>) {
    let heard = desk.heard.lock().take();
    let Some(mut wishes) = heard else { return };
    let Some((bus, arrivals)) = connect(&desk, &mut wishes).await else { return };
    let (events, happened) = mpsc::channel(1024);
    let (frames, to_send) = mpsc::channel(FRAMES);
    let bus = Arc::new(bus);
    let sending = tokio::spawn(send_frames(Arc::clone(&bus), to_send, events.clone()));
    let config = config_hash(&plan);
    let me = desk.me.clone();
    let Some(found) = refusing(&mut wishes, Box::pin(kept_state::find(&bus, &*effects))).await else { return };
    let (fold, change) = match found {
        Some(KeptBeginning { fold, change }) => (fold, Some(change)),
        None => (FleetFold::default(), None),
    };
    let now = Instant::now();
    let pace = DriverPace { beats: 0, next_beat: now, next_plan: now + BEAT_EVERY * 3, appends: 0, behind_since: None };
    let mut driver = FleetDriver {
        effects,
        reading: LogReading::begin(Arc::clone(&bus), fold.next_position()),
        outward: DriverOutward { bus, events, frames },
        states: StateRoom::new(fold.state().sequence()),
        lists: OldLists::new(desk.settings.lists_kept),
        said: SaidElsewhere::default(),
        fold,
        members: FleetMembers::new(me.clone()),
        ownership: FleetOwnership::new(me.clone(), desk.settings.labels.clone(), config),
        running: BTreeMap::new(),
        reads: IndexReads::new(READERS),
        forwarded: ForwardedRequests::new(me.clone()),
        carried: CarriedRequests::new(),
        offering: OfferWrites::default(),
        set: SetChanges::new(me.clone()),
        decisions: DecisionRoom::new(me.clone(), &desk),
        local: LocalReplica { me, config, plan, trouble: None, namesake_until: None, leaving: false, pace },
        desk,
    };
    if let Some(change) = change {
        driver.begin_with(change);
    }
    driver.drive(wishes, arrivals, happened).await;
    sending.abort();
}

/// Tries until the bus is there. Meanwhile nothing can be confirmed or forwarded.
async fn connect(desk: &FleetDesk, wishes: &mut mpsc::Receiver<FleetWish>) -> Option<(NatsBus, BusArrivals)> {
    let settings = match desk.settings.bus(desk.me.clone()) {
        Ok(settings) => settings,
        Err(error) => {
            // The configuration was checked, so this is out of reach.
            tracing::error!(%error, "no cluster");
            return None;
        }
    };
    let mut said = None;
    loop {
        let why = match refusing(wishes, Box::pin(NatsBus::connect(settings.clone()))).await? {
            Ok(connected) => return Some(connected),
            Err(error) => error.to_string(),
        };
        // Another reason is said again: a login is refused once the server is there.
        if said.as_ref() != Some(&why) {
            tracing::warn!(why, "the bus of the cluster is not there yet; it is tried again each second");
            let trouble = Some(why.clone());
            *desk.shown.lock() = Some(FleetShown { trouble, ..FleetShown::joining(&desk.settings, &desk.me) });
            said = Some(why);
        }
        refusing(wishes, tokio::time::sleep(CONNECT_AGAIN)).await?;
    }
}

/// Waits, and refuses meanwhile what is wished. `None`: the replica leaves.
async fn refusing<T>(wishes: &mut mpsc::Receiver<FleetWish>, awaited: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(awaited);
    loop {
        tokio::select! {
            came = &mut awaited => return Some(came),
            wish = wishes.recv() => if refuse(wish?) { return None },
        }
    }
}

/// Before the log is read every wish fails, by dropping what would answer it. Tells whether the replica leaves.
fn refuse(wish: FleetWish) -> bool {
    match wish {
        FleetWish::Leave(done) => {
            let _ = done.send(());
            true
        }
        FleetWish::Read(done) => {
            let _ = done.send(false);
            false
        }
        FleetWish::Decisions(DecisionWish::Write(wish)) => {
            let _ = wish.done.send(DecisionOutcome::Refused(NOT_CONNECTED.to_owned()));
            false
        }
        _ => false,
    }
}

/// One after the other: frames of one exchange keep their order.
async fn send_frames(
    bus: Arc<NatsBus>,
    mut frames: mpsc::Receiver<(ReplicaId, ExchangeId, FleetFrame)>,
    events: mpsc::Sender<DriverEvent>,
) {
    while let Some((to, exchange, frame)) = frames.recv().await {
        let opening = matches!(frame, FleetFrame::Open(_));
        if let Err(error) = bus.send(&to, &exchange, frame).await {
            tracing::debug!(%error, "a frame was not sent");
            if opening && events.send(DriverEvent::Unsent(exchange.number)).await.is_err() {
                return;
            }
        }
    }
}
