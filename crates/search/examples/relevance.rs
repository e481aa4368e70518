//! Prints how good and how fast the search is: `cargo run -p tidings-search --release --example relevance [-- --misses]`.
//!
//! `--misses` lists the tuned queries that do not have all their tools among the first five. `--model DIR` measures with a model
//! of meanings, too. `--tools N` makes a catalogue of N tools for the times.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidings_search::{
    IndexChange, MeaningSource, MeaningText, Question, RemoteVectors, SearchHit, SearchIndex, SearchModel, TextEncoder,
    ToolDocument,
};

#[allow(dead_code, reason = "its other users use other parts")]
#[path = "../relevance/harness.rs"]
mod harness;

const CATALOGUE: usize = 5_000;
/// A query is asked this often; a large catalogue has fewer rounds.
const ROUNDS: usize = 20;

fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn main() {
    let before = memory_kib("VmRSS:");
    let meaning = match option("--model") {
        Some(directory) => {
            let model = SearchModel::open(Path::new(&directory)).expect("a model");
            println!("{:?}", model.facts());
            println!("resident: {before} KiB, {} KiB with the model", memory_kib("VmRSS:"));
            match model {
                SearchModel::Static(model) => MeaningSource::Model(Arc::new(model)),
                SearchModel::Encoder(model) => MeaningSource::Remote(Arc::new(Encoder(model))),
            }
        }
        None => MeaningSource::Words,
    };
    let documents = harness::documents();
    let queries = harness::queries();
    let index = index_of(&documents, &meaning);
    println!("{} tools, {} queries", documents.len(), queries.len());
    println!("{:10} {:>7} {:>9} {:>9} {:>7}", "set", "queries", "recall@1", "recall@5", "MRR");
    for set in harness::SETS.into_iter().chain(["all"]) {
        let chosen = queries.iter().filter(|query| set == "all" || query.set == set);
        let q = harness::measure_by(|text| index.search(text, 50), chosen);
        println!("{set:10} {:>7} {:>9.3} {:>9.3} {:>7.3}", q.queries, q.first, q.recall_at_5, q.reciprocal_rank);
    }
    if std::env::args().any(|argument| argument == "--misses") {
        misses(&index, &queries);
    }
    let tools = option("--tools").and_then(|count| count.parse().ok()).unwrap_or(CATALOGUE);
    speed(&documents, &queries, &meaning, tools);
}

/// A transformer that is asked at once; the gateway asks it beside.
#[derive(Debug)]
struct Encoder(TextEncoder);

impl RemoteVectors for Encoder {
    fn reads(&self) -> MeaningText {
        MeaningText::FirstSentence
    }

    fn wanted(&self) {}

    fn question(&self, text: String) -> Pin<Box<dyn Future<Output = Option<Vec<f32>>> + Send + '_>> {
        Box::pin(std::future::ready(self.0.embed(&text)))
    }
}

/// The index with what it wants, and a question with its vector.
struct Measured<'a> {
    index: SearchIndex,
    meaning: &'a MeaningSource,
}

impl Measured<'_> {
    fn apply(&self, changes: &[IndexChange]) {
        self.index.apply(changes);
        if let MeaningSource::Remote(remote) = self.meaning {
            let mut read: Vec<Vec<f32>> = Vec::new();
            for (at, text) in self.index.wanted_texts(usize::MAX).iter().enumerate() {
                // Reading a hundred thousand texts takes many minutes, and their vectors take as long to compare, whosever they are.
                if at < CATALOGUE {
                    read.push(now(remote.question(text.0.clone())).unwrap_or_default());
                }
                self.index.place(text, &read[at % CATALOGUE]);
            }
        }
    }

    fn search(&self, text: &str, limit: usize) -> Vec<SearchHit> {
        match self.meaning {
            MeaningSource::Remote(remote) => {
                let vector = now(remote.question(text.to_owned()));
                self.index.answer(&Question { vector, ..Question::of_words(text) }, limit)
            }
            _ => self.index.search(text, limit),
        }
    }
}

/// What a future gives that is ready.
fn now<T>(mut future: Pin<Box<dyn Future<Output = Option<T>> + Send + '_>>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => None,
    }
}

fn index_of<'a>(documents: &[ToolDocument], meaning: &'a MeaningSource) -> Measured<'a> {
    let index = Measured { index: SearchIndex::with_meaning(meaning.clone()), meaning };
    index.apply(&documents.iter().cloned().map(IndexChange::Put).collect::<Vec<_>>());
    index
}

fn misses(index: &Measured<'_>, queries: &[harness::Query]) {
    for query in queries.iter().filter(|query| query.set == "tuned") {
        let hits = index.search(&query.text, 5);
        let found = hits.iter().filter(|hit| query.relevant.contains(&hit.name)).count();
        if found < query.relevant.len() {
            println!("\n{:?} wants {:?}", query.text, query.relevant);
            hits.iter().for_each(|hit| println!("    {:6.2} {}", hit.score, hit.name));
        }
    }
}

fn speed(documents: &[ToolDocument], queries: &[harness::Query], meaning: &MeaningSource, count: usize) {
    let before = memory_kib("VmRSS:");
    let mut catalogue: Vec<ToolDocument> = (0..count).map(|at| variant(&documents[at % documents.len()], at)).collect();
    let with_documents = memory_kib("VmRSS:");
    let start = Instant::now();
    let index = index_of(&catalogue, meaning);
    println!("\n{count} tools: built in {:.1?}", start.elapsed());
    println!(
        "resident: {before} KiB, {} KiB with the documents, {} KiB with the index",
        with_documents,
        memory_kib("VmRSS:")
    );

    println!("vectors: {:?}", index.index.count());
    println!("peak: {} KiB", memory_kib("VmHWM:"));

    let mut updates: Vec<Duration> = (0..500)
        .map(|round| {
            let document = &mut catalogue[round * 7 % count];
            document.description.push_str(" changed");
            let change = [IndexChange::Put(document.clone())];
            let start = Instant::now();
            index.apply(&change);
            start.elapsed()
        })
        .collect();
    report("update of one tool", &mut updates);

    let texts: Vec<String> = queries.iter().map(|query| query.text.clone()).collect();
    report_queries("query", &index, &texts);
    let texts: Vec<String> = texts.iter().map(|text| with_typos(text)).collect();
    report_queries("query with a typo in every word", &index, &texts);
}

/// The best of several rounds per query: percentiles over queries rather than over what else the machine does.
fn report_queries(what: &str, index: &Measured<'_>, texts: &[String]) {
    let time = |text: &String| {
        let start = Instant::now();
        std::hint::black_box(index.search(text, 15));
        start.elapsed()
    };
    let mut times: Vec<Duration> =
        texts.iter().map(|text| (0..rounds(index)).map(|_| time(text)).min().unwrap_or_default()).collect();
    report(what, &mut times);
}

fn rounds(index: &Measured<'_>) -> usize {
    if index.index.len() > CATALOGUE { 3 } else { ROUNDS }
}

/// Near-duplicates, with a few words of their own each, as a large catalogue has them.
fn variant(document: &ToolDocument, at: usize) -> ToolDocument {
    let mut document = document.clone();
    document.id.name = format!("{}_{at}", document.id.name);
    document.name = format!("{}_{at}", document.name);
    document.description.push_str(&format!(" in area {} for topic{}", at % 97, at % 1_013));
    document
}

fn with_typos(text: &str) -> String {
    let swap = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        if letters.len() >= 4 {
            letters.swap(1, 2);
        }
        letters.into_iter().collect::<String>()
    };
    text.split(' ').map(swap).collect::<Vec<_>>().join(" ")
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{what}: p50 {:.1?}, p99 {:.1?}, most {:.1?}", at(0.5), at(0.99), at(1.0));
}

/// Zero where the system does not say.
fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
