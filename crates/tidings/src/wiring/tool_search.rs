//! The search of tools that the configuration asks for.

use std::path::Path;

use tidings_builtin::{EndpointSettings, SearchService, SearchSettings, SearchTables};
use tidings_config::{Config, EmbeddingsSettings};
use tidings_search::SearchModel;
use tidings_store::{Store, UseTable, VectorTable};

use crate::failure::CommandFailure;

/// The search that the configuration asks for. A model that can not be read is an error at the start: without it tools would
/// be found worse, and nobody would know why.
pub(crate) fn search_service(config: &Config, tables: SearchTables) -> Result<SearchService, CommandFailure> {
    let settings = &config.search;
    let model = settings.model.as_deref().map(open_model).transpose()?;
    let endpoint =
        settings.embeddings.clone().map(|EmbeddingsSettings { url, model, key }| EndpointSettings { url, model, key });
    let settings = SearchSettings { model, endpoint, learn: settings.learn };
    SearchService::new(settings, tables).map_err(CommandFailure::failed)
}

/// What the search of tools keeps in a store.
pub(crate) fn search_tables(store: &Store) -> SearchTables {
    SearchTables { uses: UseTable::new(store), vectors: VectorTable::new(store) }
}

/// The model of `[search]`.
fn open_model(directory: &Path) -> Result<SearchModel, CommandFailure> {
    SearchModel::open(directory).map_err(|error| {
        CommandFailure::Failed(format!("[search] model: {error}\n`tidings search model` says how to get one"))
    })
}
