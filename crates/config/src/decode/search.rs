//! `[search]`.

use crate::error::ConfigFault;
use crate::plan::search::{EmbeddingsSettings, SearchSettings};
use crate::read::TableSection;
use crate::read::forms::http_url;

pub(super) fn search(mut section: TableSection<'_, '_>) -> SearchSettings {
    section.remember("model");
    let model = section.text("model").map(|path| section.reading.expander.path(&path));
    let embeddings = section.section("embeddings").and_then(embeddings);
    if model.is_some() && embeddings.is_some() {
        section.fault("embeddings", ConfigFault::TwoKinds { first: "model", second: "embeddings" });
    }
    let learn = section.boolean("learn").unwrap_or(SearchSettings::default().learn);
    section.finish();
    SearchSettings { model, embeddings, learn }
}

fn embeddings(mut section: TableSection<'_, '_>) -> Option<EmbeddingsSettings> {
    if !section.has("url") {
        section.fault("url", ConfigFault::MissingKey { key: "url" });
    }
    let url = http_url(&mut section, "url");
    let model = section.required_text("model");
    let key = section.text("key");
    if key.as_ref().is_some_and(|key| key.contains(|c: char| c.is_control())) {
        section.fault("key", ConfigFault::BadHeaderValue);
    }
    section.finish();
    Some(EmbeddingsSettings { url: url?, model: model?, key })
}
