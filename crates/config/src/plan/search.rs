//! `[search]`.

use std::path::PathBuf;

/// How tools are searched.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// The directory of a model: a small transformer, or static embeddings.
    pub model: Option<PathBuf>,
    /// An embeddings endpoint in its place.
    pub embeddings: Option<EmbeddingsSettings>,
    /// Whether a tool that was used after a search moves up for similar questions of the same caller.
    pub learn: bool,
}

/// The endpoint that turns texts into vectors, where search by meaning asks one elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct EmbeddingsSettings {
    /// Its URL, with or without `/embeddings`.
    pub url: String,
    /// The model to ask for.
    pub model: String,
    /// What to send as a bearer token.
    pub key: Option<String>,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { model: None, embeddings: None, learn: true }
    }
}

impl std::fmt::Debug for SearchSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { model, embeddings, learn } = self;
        f.debug_struct("SearchSettings")
            .field("model", model)
            .field("embeddings", embeddings)
            .field("learn", learn)
            .finish()
    }
}

/// The key is left out, because configurations are printed in logs and errors.
impl std::fmt::Debug for EmbeddingsSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddingsSettings").field("url", &self.url).field("model", &self.model).finish_non_exhaustive()
    }
}
