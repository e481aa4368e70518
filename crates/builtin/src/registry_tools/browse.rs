//! Finding servers that could be added.

use serde_json::{Value, json};
use tidings_server_catalog::{CatalogEntry, EntryQuery, RefreshReport, SourceStatus, documentation};

use super::arguments::ToolArguments;
use super::{RegistryToolSet, ToolProblem, ToolReply, definitions};

/// How many are found when nothing is said, and at most.
pub(super) const FIND_LIMIT: (usize, usize) = (20, 100);
/// How many are listed when nothing is said, and at most.
pub(super) const LIST_LIMIT: (usize, usize) = (50, 200);
/// How many ids are suggested in the place of an unknown one.
const SUGGESTIONS: usize = 3;
const ID: &str = "the id of an entry, as mcp_registry_find gives it";

impl RegistryToolSet {
    pub(super) async fn find(&self, arguments: &ToolArguments<'_>) -> Result<ToolReply, ToolProblem> {
        let query = EntryQuery {
            text: arguments.text("query", "what the server should do, such as \"search the web\"")?.to_owned(),
            categories: arguments.texts("categories")?,
            tags: arguments.texts("tags")?,
            sources: arguments.texts("sources")?,
            official_only: arguments.flag("official_only")?,
            featured_only: arguments.flag("featured_only")?,
            limit: arguments.limit(FIND_LIMIT.0, FIND_LIMIT.1)?,
        };
        let hits = self.context.entries.search(query).await?;
        let hit = |hit: &tidings_server_catalog::EntryHit| {
            let mut shown = summary(&hit.entry);
            // Three digits are more than anybody compares.
            shown["score"] = json!((f64::from(hit.score) * 1_000.0).round() / 1_000.0);
            shown
        };
        Ok(json!({ "entries": hits.iter().map(hit).collect::<Vec<_>>() }).into())
    }

    pub(super) async fn list(&self, arguments: &ToolArguments<'_>) -> Result<ToolReply, ToolProblem> {
        let source = arguments.optional_text("source", "the name of a source, as mcp_registry_status gives it")?;
        let limit = arguments.limit(LIST_LIMIT.0, LIST_LIMIT.1)?;
        let listing = self.context.entries.list(source.map(str::to_owned), limit).await?;
        let entries: Vec<Value> = listing.entries.iter().map(|entry| summary(entry)).collect();
        Ok(json!({ "entries": entries, "total": listing.total }).into())
    }

    pub(super) async fn get_docs(&self, arguments: &ToolArguments<'_>) -> Result<ToolReply, ToolProblem> {
        let entry = self.entry(arguments.text("entry_id", ID)?).await?;
        let page = documentation(&entry);
        Ok(ToolReply {
            structured: json!({ "entry": summary(&entry), "documentation": page }),
            text: Some(page),
            is_question: false,
        })
    }

    pub(super) async fn refresh(&self, arguments: &ToolArguments<'_>) -> Result<ToolReply, ToolProblem> {
        let source = arguments.text("source", "the name of a source, or \"all\"")?;
        let done = self.context.entries.refresh(Some(source.to_owned())).await?;
        let failed: Vec<String> = done.iter().filter_map(|one| one.source.error.clone()).collect();
        if !failed.is_empty() {
            // A source that can not be read keeps its entries from before, and the caller is told so.
            return Err(ToolProblem(format!("{}\nWhat was read before is still used.", failed.join("\n"))));
        }
        Ok(json!({ "sources": done.iter().map(refreshed).collect::<Vec<_>>() }).into())
    }

    /// An entry that has to be there.
    pub(super) async fn entry(&self, id: &str) -> Result<std::sync::Arc<CatalogEntry>, ToolProblem> {
        if let Some(entry) = self.context.entries.get(id.to_owned()).await? {
            return Ok(entry);
        }
        let near = EntryQuery { text: id.to_owned(), limit: SUGGESTIONS, ..EntryQuery::default() };
        let near = self.context.entries.search(near).await?;
        let near: Vec<&str> = near.iter().map(|hit| hit.entry.id.as_str()).collect();
        let meant = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
        let (find, launch) = (definitions::FIND, definitions::LAUNCH);
        Err(ToolProblem(format!("there is no entry \"{id}\"{meant} {find} finds entries, {launch} runs any command.")))
    }
}

/// An entry as results show it.
fn summary(entry: &CatalogEntry) -> Value {
    let required = |required: bool| -> Vec<&str> {
        entry.variables.iter().filter(|v| v.required == required).map(|v| v.name.as_str()).collect()
    };
    let mut shown = json!({
        "id": entry.id,
        "name": entry.name,
        "description": entry.description,
        "source": &*entry.source,
        "runs_as": entry.run.kind(),
        "categories": entry.categories,
        "tags": entry.tags,
        "official": entry.official,
        "featured": entry.featured,
        "required_environment": required(true),
        "optional_environment": required(false),
        "needs_args": entry.arguments.as_ref().is_some_and(|arguments| arguments.required),
    });
    if let Some(release) = &entry.release {
        shown["version"] = json!(release.version);
        shown["status"] = json!(release.status.word());
        if let Some(message) = &release.message {
            shown["status_message"] = json!(message);
        }
    }
    if let Some(repository) = &entry.repository {
        shown["repository"] = json!(repository);
    }
    shown
}

/// A source as results show it.
pub(super) fn source(source: &SourceStatus) -> Value {
    let mut shown = json!({
        "name": &*source.name,
        "entries": source.entries,
        "refreshed": super::show::time(source.refreshed),
    });
    if let Some(file) = &source.file {
        shown["file"] = json!(file.display().to_string());
    }
    if let Some(url) = &source.url {
        shown["url"] = json!(url);
        // Never read is no time.
        if source.refreshed == std::time::UNIX_EPOCH
            && let Value::Object(members) = &mut shown
        {
            members.remove("refreshed");
        }
    }
    if let Some(error) = &source.error {
        shown["error"] = json!(error);
    }
    shown
}

fn refreshed(done: &RefreshReport) -> Value {
    let mut shown = source(&done.source);
    shown["added"] = json!(done.added);
    shown["changed"] = json!(done.changed);
    shown["removed"] = json!(done.removed);
    shown
}
