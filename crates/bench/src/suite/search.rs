//! Case 6: the tool index. How long a change and a query take with 5,000 tools, and how good the ranking is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_proto::{FieldView, ListKind};
use tidings_search::{IndexChange, Question, SearchIndex, SearchView, ToolDocument, ToolIndex};

use super::BenchContext;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

#[allow(dead_code, reason = "its other users use other parts")]
#[path = "../../../search/relevance/harness.rs"]
mod harness;

const SERVERS: usize = 50;
const TOOLS: usize = 100;
const UPDATES: usize = 200;
const ROUNDS: usize = 4;

/// Measures the times afresh in each repetition; the ranking is always the same.
pub(super) fn rows(bench: &BenchContext) -> Vec<ReportRow> {
    let queries: Vec<String> = harness::queries().into_iter().map(|query| query.text).collect();
    let (mut updates, mut searches) = (Vec::new(), Vec::new());
    for repetition in 0..bench.repeat {
        eprintln!("search … {}/{}", repetition + 1, bench.repeat);
        let mut catalogue = LargeCatalogue::new();
        let index = ToolIndex::new();
        let built = timed(|| index.follow(|| catalogue.snapshot()));
        updates.push(sample(&mut (0..UPDATES).map(|at| catalogue.update(&index, at)).collect::<Vec<_>>(), built));
        let snapshot = catalogue.snapshot();
        let all = (0..ROUNDS).flat_map(|_| &queries);
        let search = |query: &String| {
            timed(|| index.search(&snapshot, SearchView::Shared, &Question::of_words(query), 5, |_| true))
        };
        searches.push(sample(&mut all.map(search).collect::<Vec<_>>(), built));
    }
    let count = SERVERS * TOOLS;
    let time = |what: &str, most, samples| {
        let what = format!("tool index, {count} tools: {what}, p99");
        ReportRow::judge(6, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(most), samples, None)
    };
    let quality = quality();
    let share = |what: &str, least, value: f64| {
        let sample = BenchSample { baseline: None, gateway: Some(value), full: json!({ "share": value }) };
        ReportRow::judge(
            6,
            format!("tool search, {what}"),
            RowMeasure::Share,
            RowTarget::ShareAtLeast(least),
            vec![sample],
            None,
        )
    };
    vec![
        time("one tool changed", 20.0, updates),
        time("query", 1.0, searches),
        share("recall@5", 0.9, quality.recall_at_5),
        share("MRR", 0.75, quality.reciprocal_rank),
    ]
}

fn quality() -> harness::Quality {
    let documents: Vec<ToolDocument> = harness::documents();
    let index = SearchIndex::new();
    index.apply(&documents.into_iter().map(IndexChange::Put).collect::<Vec<_>>());
    harness::measure(&index, harness::queries().iter())
}

/// How long something takes; what it gives is kept from being optimised away.
fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

fn sample(times: &mut [Duration], built: Duration) -> BenchSample {
    times.sort_unstable();
    let at = |share: f64| {
        let time = times.get(((times.len().saturating_sub(1)) as f64 * share) as usize);
        time.map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    };
    let full =
        json!({ "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0), "built_ms": built.as_secs_f64() * 1_000.0 });
    BenchSample { baseline: None, gateway: Some(at(0.99)), full }
}

/// Servers with near-duplicates of the benchmark's tools, as a large catalogue has them.
struct LargeCatalogue {
    definitions: Vec<Value>,
    offers: Vec<Arc<ServerOffer>>,
}

impl LargeCatalogue {
    fn new() -> Self {
        let mut this = Self { definitions: harness::tools(), offers: Vec::new() };
        this.offers = (0..SERVERS).map(|server| this.offer(server, None)).collect();
        this
    }

    fn snapshot(&self) -> Arc<CatalogueSnapshot> {
        Arc::new(CatalogueSnapshot::new(self.offers.clone(), FieldView::Strict))
    }

    /// Changes the words of one tool, and measures the index alone.
    fn update(&mut self, index: &ToolIndex, round: usize) -> Duration {
        let server = round % SERVERS;
        self.offers[server] = self.offer(server, Some(round));
        let next = self.snapshot();
        // To let go of a snapshot is not the index's work.
        timed(|| index.follow(|| Arc::clone(&next)))
    }

    fn offer(&self, server: usize, changed: Option<usize>) -> Arc<ServerOffer> {
        let items = (0..TOOLS).filter_map(|tool| {
            let at = server * TOOLS + tool;
            let mut definition = self.definitions[at % self.definitions.len()]["tool"].clone();
            let text = |member: &str| definition[member].as_str().unwrap_or_default().to_owned();
            let (name, mut description) = (format!("{}_{at}", text("name")), text("description"));
            description.push_str(&format!(" in area {} for topic{}", at % 97, at % 1_013));
            if let Some(round) = changed.filter(|round| round % TOOLS == tool) {
                description.push_str(&format!(" changed in round {round}"));
            }
            definition["name"] = name.into();
            definition["description"] = description.into();
            OfferItem::read(ListKind::Tools, Bytes::from(definition.to_string()), false).ok()
        });
        let offer = ServerOffer::new(ServerId(server as u32), &format!("server{server}"));
        Arc::new(offer.offering(ListKind::Tools, items.collect()))
    }
}

#[cfg(test)]
mod tests {
    use tidings_search::IndexUpdate;

    use super::*;

    #[test]
    fn an_update_changes_one_tool_of_five_thousand() {
        let mut catalogue = LargeCatalogue::new();
        let index = ToolIndex::new();
        assert_eq!(index.follow(|| catalogue.snapshot()).added, SERVERS * TOOLS);
        catalogue.offers[3] = catalogue.offer(3, Some(53));
        assert_eq!(index.follow(|| catalogue.snapshot()), IndexUpdate { changed: 1, ..IndexUpdate::default() });
    }
}
