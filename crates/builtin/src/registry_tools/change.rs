//! Adding, removing and reconfiguring servers, by the registry's one transaction.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidings_engine::Origin;
use tidings_inventory::{RegistryChange, RegistryRefusal};
use tidings_server_catalog::{ExtraKeys, default_prefix};
use tokio::time::{Instant, interval_at};

use super::arguments::{ArgumentFault, ToolArguments};
use super::consent::literal;
use super::{RegistryToolSet, ToolProblem, ToolReply, definitions, environment, pulls, runner};
use crate::local::LocalRequest;

/// How often a caller hears that a server is still being started.
const STILL: Duration = Duration::from_secs(2);
/// Longer prefixes leave no room for the names of tools.
const MAX_PREFIX: usize = 32;
const PREFIX: &str = "1 to 32 letters, digits, \"_\" or \"-\"";
const ID: &str = "the entry, prefix or name of a server, as mcp_registry_active gives it";

/// Arguments that refer to nothing.
pub(super) fn literals(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| literal(text)).collect()
}

/// Variables whose values refer to nothing.
pub(super) fn literal_pairs(pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, value)| (name, literal(&value))).collect()
}

impl RegistryToolSet {
    pub(super) async fn add(
        &self,
        request: &LocalRequest,
        arguments: &ToolArguments<'_>,
    ) -> Result<ToolReply, ToolProblem> {
        let id = arguments.text("entry_id", "the id of an entry, as mcp_registry_find gives it")?;
        let prefix = prefix(arguments)?;
        let wishes = ExtraKeys {
            // Without references: a model could name any variable of the gateway, and a server of its choice would be
            // sent it.
            args: literals(&arguments.texts("args")?),
            environment: literal_pairs(arguments.pairs("environment")?),
            kind: None,
        };
        let entry = self.entry(id).await?;
        let declared: Vec<String> = entry.variables.iter().map(|variable| variable.name.clone()).collect();
        environment::check(&wishes.environment, &declared)?;
        // Everything that can be refused is refused before the registry is asked to start anything.
        runner::check(&entry.run, std::env::var_os("PATH").as_deref())?;
        let server = self.context.entries.keys(std::sync::Arc::clone(&entry), wishes).await?;
        // Without a prefix, the last part of the entry's id is the name.
        let name = prefix.unwrap_or_else(|| default_prefix(&entry.id));
        self.put_new(request, name, server, &entry.name).await
    }

    pub(super) async fn remove(&self, arguments: &ToolArguments<'_>) -> Result<ToolReply, ToolProblem> {
        let id = arguments.text("entry_id", ID)?;
        let name = self.find_server(id)?;
        // Read before the change, after which the registry no longer knows the server.
        let made_of = self.context.registry.state().server(&name).and_then(|entry| entry.made_of.clone());
        self.context.registry.apply(vec![RegistryChange::Delete { name: name.clone() }]).await?;
        Ok(json!({ "removed": { "entry_id": made_of.as_deref().unwrap_or(&name), "name": name } }).into())
    }

    /// Variables of a server that runs; it is started again with them before the old one goes.
    pub(super) async fn config_set(
        &self,
        request: &LocalRequest,
        arguments: &ToolArguments<'_>,
    ) -> Result<ToolReply, ToolProblem> {
        let id = arguments.text("entry_id", ID)?;
        let variables = literal_pairs(arguments.pairs("environment")?);
        if variables.is_empty() {
            return Err(ArgumentFault::expected("environment", "an object with at least one variable").into());
        }
        let name = self.find_server(id)?;
        // Two calls that both read, change and write this server would lose the variables of one of them.
        let _editing = self.context.editing.lock(BTreeSet::from([name.clone()])).await;
        let kept = self.context.registry.kept(&name).await;
        let Some(Value::Object(mut keys)) = kept.clone() else { return Err(RegistryRefusal::FromFile { name }.into()) };
        let made_of = keys.get("entry").and_then(Value::as_str).unwrap_or_default().to_owned();
        let entry = self.context.entries.get(made_of).await?;
        let own = |keys: &Map<String, Value>| keys.get("env").and_then(Value::as_object).cloned().unwrap_or_default();
        let declared = entry.iter().flat_map(|entry| entry.variables.iter().map(|variable| variable.name.clone()));
        // A variable that the server has already may be changed, even where its entry no longer names it.
        let declared: Vec<String> = declared.chain(own(&keys).keys().cloned()).collect();
        environment::check(&variables, &declared)?;
        if keys.contains_key("url") {
            let entry =
                entry.ok_or_else(|| ToolProblem(format!("\"{name}\" is reached by a URL and has no environment")))?;
            let kind = keys.get("release").and_then(|release| release["kind"].as_str()).map(str::to_owned);
            let wishes = ExtraKeys { args: Vec::new(), environment: variables, kind };
            // A server behind a URL gets its variables in headers, which only the entry knows how to write.
            let fresh = self.context.entries.keys(entry, wishes).await?;
            keys.extend(fresh.get("headers").map(|headers| ("headers".to_owned(), headers.clone())));
        } else {
            let mut env = own(&keys);
            let variables = variables.into_iter().map(|(name, value)| (name, Value::from(value)));
            let variables: Map<String, Value> = variables.collect();
            if let Some(Value::Object(release)) = keys.get_mut("release") {
                // The next release is made of these, too.
                let inputs = release.entry("inputs").or_insert_with(|| json!({}));
                inputs.as_object_mut().into_iter().for_each(|inputs| inputs.extend(variables.clone()));
            }
            env.extend(variables);
            keys.insert("env".into(), env.into());
        }
        // What somebody else changed by other means after it was read is not overwritten.
        let (read, server) = (kept.unwrap_or_default(), Value::Object(keys));
        // It is started anew, with what the tool was given.
        // Asked after everything else was checked: a person is not shown what would be refused anyway.
        if let Some(question) = self.consent(request, &name, &server)? {
            return Ok(question);
        }
        let change = RegistryChange::Replace { name: name.clone(), read, server };
        self.apply(request, &name, &name, change).await?;
        self.described(&name)
    }

    /// Adds a server under a name that must be free.
    pub(super) async fn put_new(
        &self,
        request: &LocalRequest,
        name: String,
        mut server: Value,
        what: &str,
    ) -> Result<ToolReply, ToolProblem> {
        // Who looks at the servers later sees that nobody typed this one.
        // Set here and not by callers: what a tool sends must not say that it was a person.
        server["added_by"] = "tool".into();
        let catalogue = self.catalogue()?;
        // The registry knows only servers that can be changed; the gateway's own have names, too.
        let built_in = catalogue.servers.iter().any(|own| own.origin == Origin::BuiltIn && *own.name == *name);
        if built_in {
            return Err(ToolProblem(format!("\"{name}\" is a part of the gateway; choose another `prefix`")));
        }
        if let Some(question) = self.consent(request, &name, &server)? {
            return Ok(question);
        }
        self.apply(request, &name, what, RegistryChange::Add { name: name.clone(), server }).await?;
        self.described(&name)
    }

    /// Carries out a change; meanwhile the caller hears how it goes.
    async fn apply(
        &self,
        request: &LocalRequest,
        name: &str,
        what: &str,
        change: RegistryChange,
    ) -> Result<(), ToolProblem> {
        let begun = Instant::now();
        // Subscribed before the change begins, so that the first lines of a download are not missed.
        let mut news = self.context.connector.pulls();
        // Not at once: its first tick would come with the first report.
        let mut still = interval_at(begun + STILL, STILL);
        request.progress.report(&format!("Starting {what}"));
        // Pinned outside of the loop: a change that is dropped half-way is undone.
        let mut applied = std::pin::pin!(self.context.registry.apply(vec![change]));
        loop {
            tokio::select! {
                done = &mut applied => return Ok(done?),
                line = pulls::next(&mut news, name) => request.progress.report(&line),
                _ = still.tick() => {
                    request.progress.report(&format!("Still starting {what} ({} s)", begun.elapsed().as_secs()));
                }
            }
        }
    }

    /// Which server is meant by a name, a prefix, or the entry that it was made of.
    fn find_server(&self, id: &str) -> Result<String, ToolProblem> {
        let (state, catalogue) = (self.context.registry.state(), self.catalogue()?);
        // A name is unique and comes first; a prefix or an entry may belong to several servers.
        if state.server(id).is_some() {
            return Ok(id.to_owned());
        }
        let prefixed = |name: &str| {
            let status = catalogue.servers.iter().find(|status| *status.name == *name);
            let offer = status.and_then(|status| catalogue.snapshot.offer(status.id));
            offer.is_some_and(|offer| &*offer.prefix == id)
        };
        let meant = state.servers.iter().filter(|entry| entry.made_of.as_deref() == Some(id) || prefixed(&entry.name));
        let meant: Vec<&str> = meant.map(|entry| entry.name.as_str()).collect();
        match meant.as_slice() {
            [one] => Ok((*one).to_owned()),
            [] => Err(ToolProblem(format!("there is no server \"{id}\"; {} shows all", definitions::ACTIVE))),
            several => Err(ToolProblem(format!("\"{id}\" runs as {}; name one of them", several.join(" and ")))),
        }
    }
}

/// The wished-for prefix, which is the name of the server too.
pub(super) fn prefix(arguments: &ToolArguments<'_>) -> Result<Option<String>, ArgumentFault> {
    let Some(prefix) = arguments.optional_text("prefix", PREFIX)? else { return Ok(None) };
    let fits =
        prefix.len() <= MAX_PREFIX && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(Some(prefix.to_owned())) } else { Err(ArgumentFault::expected("prefix", PREFIX)) }
}
