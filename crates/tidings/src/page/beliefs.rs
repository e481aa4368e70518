//! Whether a call was made from a list that was old: found when somebody looks, so that no call costs anything for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tidings_page::{CallRow, OutdatedCall};
use tidings_proto::Topic;
use tidings_store::DefinitionState;

use super::PageServer;

/// How many clients, and how many events of each, are looked at for one page.
const CLIENTS: usize = 8;
const EVENTS: usize = 500;

/// What is known of those who made the calls of one page. Asked once for each client and tool.
#[derive(Default)]
pub(super) struct Beliefs {
    /// By name and principal: when the client listed the tools, the newest first.
    listed: HashMap<(String, String), Vec<u64>>,
    states: HashMap<String, Vec<DefinitionState>>,
}

impl Beliefs {
    /// What the client knew of the tool and what it said, where these differ. `None` also where that can not be known.
    pub(super) async fn outdated(&mut self, page: &PageServer, record: &Value, call: &CallRow) -> Option<OutdatedCall> {
        if record["method"] != "tools/call" {
            return None;
        }
        let took = record["micros"].as_u64().unwrap_or_default() / 1_000;
        // The record has the time of the end.
        let called = tidings_admin::millis(call.time).saturating_sub(took);
        let name = record["client"]["name"].as_str()?.to_owned();
        let principal = record["principal"].as_str().unwrap_or_default().to_owned();
        let listed = *self.listings(page, name, principal)?.iter().find(|listed| **listed <= called)?;
        let states = self.states(page, &call.name).await?;
        let at = |time: u64| states.iter().find(|state| state.since <= time);
        let (knew, said) = (at(listed)?, at(called)?);
        if knew.digest == said.digest {
            return None;
        }
        let definition = async |state: &DefinitionState| {
            let found = tidings_admin::definition(&page.0.changes, state.digest?).await.ok()?;
            found.is_object().then_some(found)
        };
        Some(OutdatedCall {
            listed: Timestamp::from_millisecond(i64::try_from(listed).ok()?).ok()?,
            knew: definition(knew).await,
            said: definition(said).await,
        })
    }

    /// When the one client of this name and principal listed the tools; `None` where several share both, or it left.
    fn listings(&mut self, page: &PageServer, name: String, principal: String) -> Option<&Vec<u64>> {
        let key = (name, principal);
        if !self.listed.contains_key(&key) {
            if self.listed.len() == CLIENTS {
                return None;
            }
            let client = page.0.gateway.only_connected(&key.0, &key.1)?;
            let found = page.0.gateway.client_events(client, EVENTS);
            // The trace takes a while to copy: a list must not seem older than the change that was recorded before it.
            let (now, since) = (Timestamp::now(), found.looked.elapsed());
            let events = found.events.into_iter();
            let listed = events.filter(|event| !event.told && event.topics.contains(&Topic::Tools));
            // Rounded once, as the times of changes are.
            let listed = listed.map(|event| tidings_admin::millis(before(now, event.ago + since)));
            self.listed.insert(key.clone(), listed.collect());
        }
        self.listed.get(&key)
    }

    async fn states(&mut self, page: &PageServer, tool: &str) -> Option<&Vec<DefinitionState>> {
        if !self.states.contains_key(tool) {
            let snapshot = Arc::clone(&page.0.gateway.catalogue().borrow().snapshot);
            let (server, local) = {
                let route = snapshot.tool(tool)?;
                (snapshot.offer(route.server)?.name.to_string(), route.local.to_string())
            };
            let found = tidings_admin::states(&page.0.gateway, &page.0.changes, "tools", &server, &local).await.ok()?;
            self.states.insert(tool.to_owned(), found);
        }
        self.states.get(tool)
    }
}

fn before(now: Timestamp, ago: Duration) -> Timestamp {
    now.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH)
}
