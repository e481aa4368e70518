//! What there is: servers as the gateway knows them.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_engine::{Catalogue, Origin, ServerState, ServerStatus};
use tidings_inventory::{RegistryEntry, RegistryState};
use tidings_proto::{ListKind, PublicName};

use super::{RegistryToolSet, ToolProblem, ToolReply, browse};

impl RegistryToolSet {
    /// Every configured server, also those that do not run.
    pub(super) fn active(&self) -> Result<ToolReply, ToolProblem> {
        let (catalogue, state) = (self.catalogue()?, self.context.registry.state());
        let mut servers: Vec<Value> = external(&catalogue).map(|status| running(&catalogue, status, &state)).collect();
        let idle = state.servers.iter().filter(|entry| external(&catalogue).all(|status| *status.name != *entry.name));
        servers.extend(idle.map(not_running));
        Ok(json!({ "servers": servers }).into())
    }

    pub(super) fn status(&self) -> Result<ToolReply, ToolProblem> {
        let (catalogue, state) = (self.catalogue()?, self.context.registry.state());
        let count = |wanted| external(&catalogue).filter(|status| status.state == wanted).count();
        let configured = external(&catalogue).count();
        let idle = state.servers.iter().filter(|entry| external(&catalogue).all(|status| *status.name != *entry.name));
        let sources = self.context.entries.sources();
        let mut configuration = json!({ "needs_restart": state.needs_restart });
        if let Some(file) = &state.file {
            configuration["file"] = json!(file.display().to_string());
        }
        if let Some(report) = &state.reload {
            configuration["read"] = json!(time(report.at));
            if let Err(error) = &report.outcome {
                configuration["error"] = json!(error.to_string());
            }
        }
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "entries": sources.iter().map(|source| source.entries).sum::<usize>(),
            "sources": sources.iter().map(browse::source).collect::<Vec<_>>(),
            "servers": {
                "running": configured,
                "ready": count(ServerState::Ready),
                "connecting": count(ServerState::Connecting),
                "failing": count(ServerState::Failing),
                "needs_login": count(ServerState::NeedsLogin),
                "not_running": idle.count(),
            },
            "survives_restart": state.kept,
            "configuration": configuration,
        })
        .into())
    }

    /// One server that was just changed.
    pub(super) fn described(&self, name: &str) -> Result<ToolReply, ToolProblem> {
        let (catalogue, state) = (self.catalogue()?, self.context.registry.state());
        let status = external(&catalogue).find(|status| *status.name == *name);
        // Whoever removed it in this very moment was told so too.
        let status = status.ok_or_else(|| ToolProblem(format!("\"{name}\" was removed again by somebody else")))?;
        Ok(json!({ "server": running(&catalogue, status, &state) }).into())
    }

    pub(super) fn catalogue(&self) -> Result<Arc<Catalogue>, ToolProblem> {
        let catalogue = self.surroundings.catalogue().map(|catalogue| Arc::clone(&catalogue.borrow()));
        catalogue.ok_or_else(|| ToolProblem("the gateway is shutting down".to_owned()))
    }
}

/// The servers that are not part of the program.
fn external(catalogue: &Catalogue) -> impl Iterator<Item = &ServerStatus> {
    catalogue.servers.iter().filter(|status| status.origin != Origin::BuiltIn)
}

fn running(catalogue: &Catalogue, status: &ServerStatus, state: &RegistryState) -> Value {
    let snapshot = &catalogue.snapshot;
    let offer = snapshot.offer(status.id);
    let items = |kind| offer.map_or(&[][..], |offer| &offer.list(kind).items);
    let tools: Vec<&str> = items(ListKind::Tools)
        .iter()
        .filter_map(|item| snapshot.public_name(ListKind::Tools, status.id, &item.key))
        .map(PublicName::as_str)
        .collect();
    let made_of = state.server(&status.name).and_then(|entry| entry.made_of.as_deref());
    let mut shown = json!({
        "entry_id": made_of.unwrap_or(&status.name),
        "name": &*status.name,
        "prefix": offer.map_or(&*status.name, |offer| &*offer.prefix),
        "source": status.origin.as_str(),
        "state": status.state.as_str(),
        "since": time(status.since),
        "tools": tools,
        "resources": items(ListKind::Resources).len(),
        "resource_templates": items(ListKind::Templates).len(),
        "prompts": items(ListKind::Prompts).len(),
    });
    if let Some(revision) = status.revision() {
        shown["revision"] = json!(revision.as_str());
        shown["era"] = json!(revision.era().as_str());
    }
    if let Some(error) = &status.error {
        shown["error"] = json!(error);
    }
    shown
}

fn not_running(entry: &RegistryEntry) -> Value {
    let mut shown = json!({
        "entry_id": entry.made_of.as_deref().unwrap_or(&entry.name),
        "name": entry.name,
        "prefix": entry.name,
        "source": entry.origin.as_str(),
        "state": if entry.enabled { "not-started" } else { "disabled" },
        "tools": [],
        "resources": 0,
        "resource_templates": 0,
        "prompts": 0,
    });
    if let Some(problem) = &entry.problem {
        shown["error"] = json!(problem);
    }
    shown
}

/// A moment, in words that programs read too.
pub(super) fn time(at: SystemTime) -> String {
    Timestamp::try_from(at).map(|at| at.to_string()).unwrap_or_default()
}
