//! Case 7: what a commit costs, by the size of the catalogue around it.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_hub::ledger::{CommitOccasion, FollowerBaseline, FollowerId, Ledger, Topic, Topics};
use tidings_proto::{Era, FieldView, ListKind, Revision, UriMap};

use super::BenchContext;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const SERVERS: u32 = 50;
const TIMES: u32 = 10;
const TOOLS: usize = 20;
const COMMITS: usize = 500;

/// A catalogue that one client of each era follows.
struct FollowedCatalogue {
    snapshot: CatalogueSnapshot,
    ledger: Ledger,
}

/// One tool of one server changes, in a small catalogue and in one ten times as large, in turns.
pub(super) fn row(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("commits … {}/{}", repetition + 1, bench.repeat);
        let (mut small, mut large) = (FollowedCatalogue::new(SERVERS), FollowedCatalogue::new(SERVERS * TIMES));
        let (mut small_micros, mut large_micros) = (Vec::new(), Vec::new());
        for version in 0..COMMITS {
            small_micros.push(small.commit(SERVERS / 2, version));
            large_micros.push(large.commit(SERVERS * TIMES / 2, version));
        }
        samples.push(BenchSample {
            baseline: median(small_micros.into_iter()),
            gateway: median(large_micros.into_iter()),
            full: json!({ "commits": COMMITS }),
        });
    }
    let what = format!("one of {TOOLS} tools changes: {SERVERS} servers, and {}", SERVERS * TIMES);
    ReportRow::judge(7, what, RowMeasure::MedianMicros, RowTarget::RatioAtMost(1.2), samples, None)
}

impl FollowedCatalogue {
    fn new(servers: u32) -> Self {
        let mut snapshot = CatalogueSnapshot::new(Vec::new(), FieldView::Strict);
        for server in 0..servers {
            snapshot = snapshot.with(offer(server, 0));
        }
        let mut ledger = Ledger::default();
        for (id, view) in [(1, Revision::MODERN), (2, Revision::LATEST_LEGACY)] {
            ledger.follow(FollowerId(id), view, Topics::ALL, FollowerBaseline::Current, snapshot.digests(view));
        }
        Self { snapshot, ledger }
    }

    /// From the new list to what is owed, in microseconds.
    fn commit(&mut self, server: u32, version: usize) -> f64 {
        // Made before the clock starts: reading a list is not part of a commit.
        let offer = offer(server, version + 1);
        let started = Instant::now();
        self.snapshot = self.snapshot.with(offer);
        let mut touched = Topics::default();
        touched.insert(Topic::Tools);
        let occasion = CommitOccasion { at: started, touched, signalled: [None; 3], held_by: None };
        let owed = self.ledger.commit(&occasion, |view| self.snapshot.digests(*view)).owed;
        let took = started.elapsed();
        assert_eq!(owed.len(), 2, "both are told");
        for follower in owed {
            // Delivered, or the next commit would find the debt already there and owe nothing new.
            self.ledger.deliver(follower);
        }
        took.as_secs_f64() * 1e6
    }
}

/// A server's offer, in which one tool says its version.
fn offer(server: u32, version: usize) -> ServerOffer {
    let tool = |number: usize| {
        let version = if number == 0 { version } else { 0 };
        let text = json!({
            "name": format!("tool_{number}"),
            "description": format!("Does what tool {number} of server {server} does, in version {version}."),
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}},
        });
        OfferItem::read(ListKind::Tools, Bytes::from(text.to_string()), false).ok()
    };
    let name = format!("server{server}");
    let uris = UriMap::Prefix(name.as_str().into());
    let items = (0..TOOLS).filter_map(tool).collect();
    ServerOffer { uris, era: Era::Modern, ..ServerOffer::new(ServerId(server), &name).offering(ListKind::Tools, items) }
}
