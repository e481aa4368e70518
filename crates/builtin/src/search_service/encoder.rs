//! A transformer in the process. A text takes it a millisecond or two, thousands of tools take seconds: so it is asked beside, like
//! an endpoint, and searches go on with the vectors there are.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use tidings_search::{MeaningText, ModelFacts, RemoteVectors, TextEncoder, ToolIndex, WantedText};
use tokio::sync::Notify;

/// How many texts are read before their tools get their vectors. A question waits for one of them, and for questions before it.
const BATCH: usize = 16;
/// How much a tool gains that means exactly what is asked. Chosen on the tune half of `crates/search/relevance/live`.
const WEIGHT: f32 = 20.0;

/// The transformer, and who waits for work.
#[derive(Debug)]
pub(super) struct EncoderVectors {
    encoder: Arc<TextEncoder>,
    wanted: Notify,
}

impl EncoderVectors {
    pub(super) fn new(encoder: TextEncoder) -> Self {
        Self { encoder: Arc::new(encoder), wanted: Notify::new() }
    }

    pub(super) fn facts(&self) -> ModelFacts {
        self.encoder.facts()
    }

    async fn vectors(&self, texts: Vec<WantedText>) -> Vec<(WantedText, Option<Vec<f32>>)> {
        let encoder = Arc::clone(&self.encoder);
        let embed = move || {
            let vector = |text: WantedText| {
                let vector = encoder.embed(&text.0);
                (text, vector)
            };
            texts.into_iter().map(vector).collect()
        };
        tokio::task::spawn_blocking(embed).await.unwrap_or_default()
    }
}

impl RemoteVectors for EncoderVectors {
    fn reads(&self) -> MeaningText {
        MeaningText::FirstSentence
    }

    fn weight(&self) -> f32 {
        WEIGHT
    }

    fn wanted(&self) {
        self.wanted.notify_one();
    }

    fn question(&self, text: String) -> Pin<Box<dyn Future<Output = Option<Vec<f32>>> + Send + '_>> {
        let encoder = Arc::clone(&self.encoder);
        // Not on a thread that serves connections.
        Box::pin(async move { tokio::task::spawn_blocking(move || encoder.embed(&text)).await.ok().flatten() })
    }
}

/// Gives the index what it wants until it is gone.
pub(super) async fn encode_wanted(source: Arc<EncoderVectors>, index: Weak<ToolIndex>) {
    loop {
        let Some(current) = index.upgrade() else { return };
        let texts = current.wanted_texts(BATCH);
        // Or the index would live as long as the texts take.
        drop(current);
        if texts.is_empty() {
            // `notify_one` keeps a permit, so texts that came since the look above end this wait at once.
            source.wanted.notified().await;
            continue;
        }
        let vectors = source.vectors(texts).await;
        // Nothing can be said of any text: asked again at once, it would be the same.
        if vectors.is_empty() {
            // Only a panic empties the list: every text has a row otherwise, also without a vector.
            tracing::warn!("the model of search stopped; tools are found by words");
            return;
        }
        let Some(current) = index.upgrade() else { return };
        for (text, vector) in vectors {
            // An empty vector is none, and says that the text need not be asked for again.
            current.place(&text, &vector.unwrap_or_default());
        }
    }
}
