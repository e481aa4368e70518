//! Prints the text of each tool as a small transformer is given it: `cargo run -p tidings-search --example texts < tools.jsonl`.
//! A line of the input has `server` and `tool`. `relevance/correction` trains on what comes out.

use std::future::Future;
use std::io::BufRead as _;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use tidings_search::{IndexChange, MeaningSource, MeaningText, RemoteVectors, SearchIndex, ToolDocument};

/// What is asked for texts, and never gives a vector.
#[derive(Debug)]
struct NoVectors;

impl RemoteVectors for NoVectors {
    fn reads(&self) -> MeaningText {
        MeaningText::FirstSentence
    }

    fn wanted(&self) {}

    fn question(&self, _: String) -> Pin<Box<dyn Future<Output = Option<Vec<f32>>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in std::io::stdin().lock().lines() {
        let line: Value = serde_json::from_str(&line?)?;
        let server = line["server"].as_str().ok_or("a line without a server")?;
        let document = ToolDocument::from_tool(server, "tool", line["tool"].to_string().as_bytes());
        let name = document.name.clone();
        let index = SearchIndex::with_meaning(MeaningSource::Remote(Arc::new(NoVectors)));
        index.apply(&[IndexChange::Put(document)]);
        for text in index.wanted_texts(1) {
            println!("{}", json!({"server": server, "name": name, "text": text.0}));
        }
    }
    Ok(())
}
