//! Cases 21 to 23: what audit, quotas, approvals and the proof of the records cost.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tidings_hub::ServerId;
use tidings_hub::approvals::{ApprovalMode, ApprovalPolicy, ApprovalVerdict, Approvals};
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_hub::ledger::{CommitOccasion, FollowerBaseline, FollowerId, Ledger, Topic, Topics};
use tidings_proto::{FieldView, ListKind, Revision};
use tidings_store::{AuditClock, AuditEntry, AuditLimits, AuditLog, SinkSettings, Store, verify};

use super::BenchContext;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const TOOLS: usize = 10_000;
const ROUNDS: usize = 30;
const RECORDS: usize = 1_000_000;

/// Case 22: one of many tools changes, with and without approval: from the list as the server sent it to what is owed.
pub(super) fn approvals(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("approvals … {}/{}", repetition + 1, bench.repeat);
        let (mut plain, mut screened) = (ScreenedCatalogue::new(false), ScreenedCatalogue::new(true));
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for version in 1..=ROUNDS {
            without.push(plain.change(version));
            with.push(screened.change(version));
        }
        samples.push(BenchSample {
            baseline: median(without.into_iter()),
            gateway: median(with.into_iter()),
            full: json!({ "rounds": ROUNDS, "tools": TOOLS }),
        });
    }
    let what = format!("one of {TOOLS} tools changes: without approval, and approve = \"changed\"");
    ReportRow::judge(22, what, RowMeasure::MedianMicros, RowTarget::RatioAtMost(1.2), samples, None)
}

/// A catalogue of one server that two clients follow.
struct ScreenedCatalogue {
    snapshot: CatalogueSnapshot,
    ledger: Ledger,
    approvals: Option<Approvals>,
}

impl ScreenedCatalogue {
    fn new(screens: bool) -> Self {
        let snapshot = CatalogueSnapshot::new(Vec::new(), FieldView::Strict);
        let approvals = screens.then(|| Approvals::known(false, []));
        let mut catalogue = Self { snapshot, ledger: Ledger::default(), approvals };
        let offer = catalogue.screened(offer(&texts(0))).0;
        catalogue.snapshot = catalogue.snapshot.with(offer);
        for (id, view) in [(1, Revision::MODERN), (2, Revision::LATEST_LEGACY)] {
            let digests = catalogue.snapshot.digests(view);
            catalogue.ledger.follow(FollowerId(id), view, Topics::ALL, FollowerBaseline::Current, digests);
        }
        catalogue
    }

    /// The offer as clients may see it, and what is held.
    fn screened(&mut self, mut offer: ServerOffer) -> (ServerOffer, Vec<tidings_hub::approvals::HeldItem>) {
        let Some(approvals) = &mut self.approvals else { return (offer, Vec::new()) };
        let policy = ApprovalPolicy { mode: ApprovalMode::Changed, ..ApprovalPolicy::default() };
        let screened = approvals.screen(policy, &offer.lists);
        offer.lists = screened.visible;
        (offer, screened.held)
    }

    /// One tool says something else, in microseconds.
    fn change(&mut self, version: usize) -> f64 {
        let texts = texts(version);
        let started = Instant::now();
        let (offer, held) = self.screened(offer(&texts));
        self.commit(offer, started);
        let took = started.elapsed();
        // Approved before the next round, so that the next change is held again.
        if let Some(approvals) = &mut self.approvals {
            assert_eq!(held.len(), 1, "the tool that changed is held");
            held.iter().for_each(|held| approvals.decide(held.decision(ApprovalVerdict::Approve)));
            let (offer, _) = self.screened(self::offer(&texts));
            self.commit(offer, Instant::now());
        }
        took.as_secs_f64() * 1e6
    }

    fn commit(&mut self, offer: ServerOffer, at: Instant) {
        self.snapshot = self.snapshot.with(offer);
        let mut touched = Topics::default();
        touched.insert(Topic::Tools);
        let occasion = CommitOccasion { at, touched, signalled: [None; 3], held_by: None };
        let owed = self.ledger.commit(&occasion, |view| self.snapshot.digests(*view)).owed;
        assert_eq!(owed.len(), 2, "both are told");
        owed.into_iter().for_each(|follower| _ = self.ledger.deliver(follower));
    }
}

/// The list as the server sends it, in which one tool says its version.
fn texts(version: usize) -> Vec<Bytes> {
    let text = |number: usize| {
        let version = if number == TOOLS / 2 { version } else { 0 };
        let schema =
            json!({"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}});
        let description = format!("Does what tool {number} does, in version {version}.");
        json!({"name": format!("tool_{number}"), "description": description, "inputSchema": schema}).to_string()
    };
    (0..TOOLS).map(|number| Bytes::from(text(number))).collect()
}

fn offer(texts: &[Bytes]) -> ServerOffer {
    let items = texts.iter().filter_map(|text| OfferItem::read(ListKind::Tools, text.clone(), false).ok()).collect();
    ServerOffer::new(ServerId(0), "many").offering(ListKind::Tools, items)
}

/// A call, as it is recorded.
#[derive(Debug)]
struct RecordedCall(usize);

impl AuditEntry for RecordedCall {
    fn weight(&self) -> usize {
        512
    }

    fn write(self, clock: &AuditClock, members: &mut Vec<u8>) -> u64 {
        let time = clock.write_time(Instant::now(), members);
        let call = format!(
            ",\"kind\":\"call\",\"principal\":\"local\",\"client\":{{\"name\":\"bench\",\"version\":\"1\"}},\"server\":\"echo\",\
             \"method\":\"tools/call\",\"name\":\"echo_{}\",\"arguments\":{{\"hash\":\"{:064x}\",\"size\":64}},\"outcome\":\"answered\",\
             \"micros\":1400",
            self.0, self.0
        );
        members.extend_from_slice(call.as_bytes());
        time
    }
}

/// Case 23: the proof of a million records, from the opening of the store.
pub(super) async fn proof(bench: &BenchContext) -> ReportRow {
    let folder = bench.folder.path().join("proof");
    let mut note = std::fs::create_dir_all(&folder).err().map(|error| error.to_string());
    write_records(&folder).await;
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("verify … {}/{}", repetition + 1, bench.repeat);
        let place = folder.clone();
        let proved = tokio::task::spawn_blocking(move || prove(&place)).await;
        let (took, records) = match proved {
            Ok(Ok((took, records))) => (Some(took), records),
            Ok(Err(fault)) => {
                note = Some(fault);
                (None, 0)
            }
            Err(error) => {
                note = Some(error.to_string());
                (None, 0)
            }
        };
        samples.push(BenchSample { baseline: None, gateway: took, full: json!({ "records": records }) });
    }
    let what = format!("verify of {RECORDS} records");
    ReportRow::judge(23, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(5_000.0), samples, note)
}

async fn write_records(folder: &std::path::Path) {
    let limits = AuditLimits {
        max_age: Duration::from_secs(3_600),
        max_records: 2 * RECORDS as u64,
        max_bytes: 4 << 30,
        max_waiting: 256 << 20,
    };
    let store = Store::open(folder, Duration::from_secs(2));
    let (log, queue) = AuditLog::start(store, limits, SinkSettings::default());
    for number in 0..RECORDS {
        queue.hand_over(RecordedCall(number));
        // The queue is bounded: what comes faster than it is written would be missing.
        if number % 10_000 == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    log.close().await;
}

/// How long it took, in milliseconds, and how many records were proved.
fn prove(folder: &std::path::Path) -> Result<(f64, u64), String> {
    let until = Instant::now() + Duration::from_secs(10);
    let started = loop {
        let started = Instant::now();
        match Store::existing(folder) {
            Ok(Some(store)) => break (started, store),
            Ok(None) => return Err("there is no store".to_owned()),
            // The thread of the log lets go of it a moment after it said that it is done.
            Err(error) if Instant::now() > until => return Err(error.to_string()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let report = verify(&started.1, &[], None).map_err(|error| error.to_string())?;
    let took = started.0.elapsed();
    if !report.holds() || report.audit.records < RECORDS as u64 {
        return Err(format!("{} records proved; {:?}", report.audit.records, report.faults));
    }
    Ok((took.as_secs_f64() * 1e3, report.audit.records))
}
