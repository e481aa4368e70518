//! Reads the relevance benchmark and measures a ranking against it. Shared by the test, the example and `cargo xtask bench`.

use std::collections::BTreeSet;

use serde_json::Value;
use tidings_search::{IndexChange, SearchHit, SearchIndex, ToolDocument};

/// Tuned: looked at while tuning. Held out: its misses were not looked at, but it was known when the tables of words were
/// written. Fresh: written after the last change of the ranking and the tables, and measured once.
pub(crate) const SETS: [&str; 3] = ["tuned", "held_out", "fresh"];

/// A phrase and the tools that fit it.
pub(crate) struct Query {
    /// What is asked.
    pub(crate) text: String,
    /// Public names of the one to three tools that answer it.
    pub(crate) relevant: BTreeSet<String>,
    /// Which part of the benchmark it belongs to, one of [`SETS`].
    pub(crate) set: String,
}

/// How good a ranking is over some queries.
#[derive(Default)]
pub(crate) struct Quality {
    /// How many queries.
    pub(crate) queries: usize,
    /// The share of queries whose first result is relevant.
    pub(crate) first: f64,
    /// The mean share of the relevant tools among the first five.
    pub(crate) recall_at_5: f64,
    /// The mean reciprocal rank of the first relevant tool among the first fifty.
    pub(crate) reciprocal_rank: f64,
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON value per line")).collect()
}

/// The definitions of the benchmark: objects with `server` and `tool`.
pub(crate) fn tools() -> Vec<Value> {
    lines(include_str!("tools.jsonl"))
}

/// The tools of the benchmark.
pub(crate) fn documents() -> Vec<ToolDocument> {
    let document = |line: &Value| {
        let server = line["server"].as_str().expect("a server");
        let name = line["tool"]["name"].as_str().expect("a name");
        ToolDocument::from_tool(server, &format!("{server}__{name}"), line["tool"].to_string().as_bytes())
    };
    tools().iter().map(document).collect()
}

/// The queries of the benchmark.
pub(crate) fn queries() -> Vec<Query> {
    let query = |line: &Value| Query {
        text: line["query"].as_str().expect("a query").to_owned(),
        relevant: line["relevant"]
            .as_array()
            .expect("tools")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        set: line["set"].as_str().expect("a set").to_owned(),
    };
    lines(include_str!("queries.jsonl")).iter().map(query).collect()
}

/// An index of these documents.
pub(crate) fn index(documents: &[ToolDocument]) -> SearchIndex {
    let index = SearchIndex::new();
    let changes: Vec<IndexChange> = documents.iter().cloned().map(IndexChange::Put).collect();
    index.apply(&changes);
    index
}

/// Measures an index over queries.
pub(crate) fn measure<'a>(index: &SearchIndex, queries: impl Iterator<Item = &'a Query>) -> Quality {
    measure_by(|text| index.search(text, 50), queries)
}

/// Measures what a search finds.
pub(crate) fn measure_by<'a>(
    search: impl Fn(&str) -> Vec<SearchHit>,
    queries: impl Iterator<Item = &'a Query>,
) -> Quality {
    let mut quality = Quality::default();
    for query in queries {
        let names: Vec<String> = search(&query.text).into_iter().map(|hit| hit.name).collect();
        let rank = names.iter().position(|name| query.relevant.contains(name));
        let in_five = names.iter().take(5).filter(|name| query.relevant.contains(*name)).count();
        quality.queries += 1;
        quality.first += f64::from(u8::from(rank == Some(0)));
        quality.recall_at_5 += in_five as f64 / query.relevant.len() as f64;
        quality.reciprocal_rank += rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
    }
    let count = quality.queries as f64;
    quality.first /= count;
    quality.recall_at_5 /= count;
    quality.reciprocal_rank /= count;
    quality
}
