//! What stands behind the search of tools: the index, where meanings come from, and what was learnt from use.
//!
//! Here: the effects (requests to an embeddings endpoint, the store). What they mean for a ranking is decided in `tidings-search`.

mod encoder;
mod endpoint;
mod learner;

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tidings_search::{ForgetFault, MeaningSource, SearchControl, SearchModel, ToolIndex};
use tidings_store::{UseTable, VectorTable};
use tidings_upstream::LinkError;
use tokio_util::task::AbortOnDropHandle;

use encoder::EncoderVectors;
use endpoint::EmbeddingsEndpoint;
pub use endpoint::EndpointSettings;
pub(crate) use learner::Learner;

/// How tools are searched, as the configuration says.
#[derive(Debug, Default)]
pub struct SearchSettings {
    /// The model of this process.
    pub model: Option<SearchModel>,
    /// An endpoint elsewhere that makes the vectors, in the place of a model in the process.
    pub endpoint: Option<EndpointSettings>,
    /// Whether to learn from use.
    pub learn: bool,
}

/// What search keeps over a restart.
#[derive(Clone, Debug, Default)]
pub struct SearchTables {
    /// Which tool was used after which question.
    pub uses: UseTable,
    /// What the endpoint answered.
    pub vectors: VectorTable,
}

/// The search of one gateway.
#[derive(Debug)]
pub struct SearchService {
    index: Arc<ToolIndex>,
    endpoint: Option<Arc<EmbeddingsEndpoint>>,
    encoder: Option<Arc<EncoderVectors>>,
    learner: Option<Arc<Learner>>,
    /// For what an earlier run learnt, when this one does not.
    uses: UseTable,
    /// Gives the index vectors from the endpoint or the transformer; ends with this service.
    fetching: OnceLock<AbortOnDropHandle<()>>,
}

impl SearchService {
    /// Reads what was kept. Blocks; `Err` says why the endpoint can not be used at all.
    pub fn new(settings: SearchSettings, tables: SearchTables) -> Result<Self, LinkError> {
        let SearchSettings { model, endpoint, learn } = settings;
        let endpoint = endpoint.map(|settings| EmbeddingsEndpoint::new(settings, tables.vectors)).transpose()?;
        let endpoint = endpoint.map(Arc::new);
        let mut encoder = None;
        let meaning = match (model, &endpoint) {
            (Some(SearchModel::Static(model)), _) => MeaningSource::Model(Arc::new(model)),
            (Some(SearchModel::Encoder(model)), _) => {
                let vectors = encoder.insert(Arc::new(EncoderVectors::new(model)));
                MeaningSource::Remote(Arc::clone(vectors) as _)
            }
            (None, Some(endpoint)) => MeaningSource::Remote(Arc::clone(endpoint) as _),
            (None, None) => MeaningSource::Words,
        };
        let index = Arc::new(ToolIndex::with_meaning(meaning));
        let learner = learn.then(|| Arc::new(Learner::new(tables.uses.clone())));
        Ok(Self { index, endpoint, encoder, learner, uses: tables.uses, fetching: OnceLock::new() })
    }

    /// The index of all tools, which follows the catalogue.
    pub fn index(&self) -> Arc<ToolIndex> {
        Arc::clone(&self.index)
    }

    /// Begins to fetch vectors, where they come later. Ends with the service.
    pub fn start(&self) {
        if let Some(encoder) = &self.encoder {
            self.fetching.get_or_init(|| {
                let work = encoder::encode_wanted(Arc::clone(encoder), Arc::downgrade(&self.index));
                AbortOnDropHandle::new(tokio::spawn(work))
            });
        }
        if let Some(endpoint) = &self.endpoint {
            self.fetching.get_or_init(|| {
                // Weak, or the task would keep the index alive that it is to end with.
                let work = endpoint::fetch_wanted(Arc::clone(endpoint), Arc::downgrade(&self.index));
                AbortOnDropHandle::new(tokio::spawn(work))
            });
        }
    }

    pub(crate) fn learner(&self) -> Option<Arc<Learner>> {
        self.learner.clone()
    }
}

impl SearchControl for SearchService {
    fn describe(&self) -> Value {
        let count = self.index.count();
        let mut described = json!({
            "tools": count.tools,
            "by_meaning": count.vectors,
            "vector_bytes": count.bytes,
            "learns": self.learner.is_some(),
            "learnt": self.learner.as_ref().map_or(0, |learner| learner.memory().len()),
        });
        let facts = match (self.index.meaning(), &self.encoder) {
            (MeaningSource::Model(model), _) => Some(model.facts()),
            (_, Some(encoder)) => Some(encoder.facts()),
            _ => None,
        };
        if let Some(facts) = facts {
            described["model"] = json!({
                "directory": facts.directory,
                "tokens": facts.tokens,
                "dimensions": facts.dimensions,
                "layers": facts.layers,
                "waiting": count.waiting,
                "tokenizer": facts.tokenizer,
                "corrected": facts.corrected,
                "bytes": facts.bytes,
                "approximations": facts.approximations,
            });
        }
        if let Some(endpoint) = &self.endpoint {
            described["endpoint"] = endpoint.describe(count.waiting);
        }
        described
    }

    fn forget(&self) -> BoxFuture<'static, Result<usize, ForgetFault>> {
        let (learner, table) = (self.learner.clone(), self.uses.clone());
        Box::pin(async move {
            let work = move || {
                let kept = table.read().map_err(ForgetFault::store)?.len();
                table.forget().map_err(ForgetFault::store)?;
                // Both hold the same uses, but without a learner only the table has them.
                Ok(learner.map_or(0, |learner| learner.memory().forget()).max(kept))
            };
            tokio::task::spawn_blocking(work).await.unwrap_or(Err(ForgetFault::Stopped))
        })
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
